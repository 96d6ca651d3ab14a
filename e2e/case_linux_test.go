package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// attackCase is one attempt to break out.
type attackCase struct {
	id, what string
	flags    []string // beside the default policy
	tries    []try
	plant    func(t *testing.T, w *world) // what the tries need, beside what every world has
	after    func(t *testing.T, w *world) // looks at the host, when the tries inside are done
	// test is the attempt itself, where it is more than acts of the probe. What it has no control for, it says.
	test func(t *testing.T, w *world)
	only string // the user it concerns; empty for both
}

// try is one act of the probe, inside and outside.
type try struct {
	act  string
	want string // the errnos, or REACHED, that are expected inside
	// control is the act without a sandbox: the same, unless something else is its equal there. It must be reached.
	control string
	lone    string   // why the control may fail on a host; then a refusal inside is no merit
	user    string   // the same, of an ordinary user only
	root    bool     // the try concerns root only
	flags   []string // of nsrun, beside the case's
}

const (
	refused = "the host refuses this to an ordinary user too"
	noEqual = "outside there is nothing like it to try on"
)

// verdict reads what the probe printed: a word, and the errno or rest.
func verdict(e ending) (word, rest string) {
	line, _, _ := strings.Cut(e.stdout, "\n")
	word, rest, _ = strings.Cut(line, " ")
	if word == "" && e.code > 128 {
		return "BLOCKED", unix.SignalName(syscall.Signal(e.code - 128))
	}
	return word, rest
}

// stopped reports whether an act ended as the try wants it: with one of its errnos, or one of its words.
func (c try) stopped(e ending) bool {
	word, rest := verdict(e)
	errno, _, _ := strings.Cut(rest, " ")
	want := strings.Fields(c.want)
	return word == "BLOCKED" && slices.Contains(want, errno) || word != "BLOCKED" && slices.Contains(want, word)
}

// live reports whether the act does outside what it should not do inside. A bare system call is live when it fails otherwise.
func (c try) live(e ending) bool {
	word, _ := verdict(e)
	bare := strings.HasPrefix(c.outside(), "call ") || strings.HasPrefix(c.outside(), "int80 ")
	return word == "REACHED" || bare && word == "BLOCKED" && !c.stopped(e)
}

func (c try) outside() string {
	if c.control != "" {
		return c.control
	}
	return c.act
}

// run makes the attempt, and says whether a control stood beside each part of it.
func (r attackCase) run(t *testing.T, w *world) (credit bool) {
	w.need(t, r)
	w.fresh(t)
	if r.plant != nil {
		r.plant(t, w)
	}
	before := testenv.Settled(&w.accepted)
	for _, c := range r.tries {
		if c.root && w.uid != 0 {
			continue
		}
		e := w.probe(t, slices.Concat(r.flags, c.flags), c.act)
		assert.True(t, c.stopped(e), "%s: inside, %q must end with %s\n%v", r.what, c.act, c.want, e)
	}
	assert.Equal(t, before, testenv.Settled(&w.accepted), "nothing has come to the host's servers")
	if r.after != nil {
		r.after(t, w)
	}
	if r.test != nil {
		r.test(t, w)
		return true
	}
	return r.controls(t, w)
}

func (r attackCase) controls(t *testing.T, w *world) bool {
	credit := true
	for _, c := range r.tries {
		if c.root && w.uid != 0 || c.want == "REACHED" || c.lone == noEqual {
			continue
		}
		w.fresh(t)
		if r.plant != nil {
			r.plant(t, w)
		}
		e := w.outside(t, c.outside())
		excuse := c.lone
		if w.uid != 0 && excuse == "" {
			excuse = c.user
		}
		switch {
		case c.live(e):
		case excuse != "":
			credit = false
			t.Logf("no credit for %q: %s (%s)", c.act, excuse, strings.TrimSpace(e.stdout))
		default:
			t.Errorf("%s: the control %q must be reached outside\n%v", r.what, c.outside(), e)
		}
	}
	return credit
}

// score counts the cases of one user.
type score struct{ stopped, all, credited int }

func (s score) String() string {
	return fmt.Sprintf("%d of %d checks (%d with a live control)", s.stopped, s.all, s.credited)
}

// absent asserts that the host has nothing at a place.
func absent(names ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		for _, name := range names {
			_, err := os.Lstat(w.fill.Replace(name))
			assert.ErrorIs(t, err, os.ErrNotExist, "%s must not exist on the host", name)
		}
	}
}

// holds asserts that a file of the host has its content.
func holds(name, text string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		data, err := os.ReadFile(w.fill.Replace(name))
		assert.NoError(t, err)
		assert.Equal(t, text, string(data), "%s must be as it was", name)
	}
}
