package bwrap

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/plan"
)

// Rendered is a plan as a command line of bubblewrap's, without argv[0].
type Rendered struct {
	// Args are options, "--", and the command.
	Args []string
	// Data must be readable at descriptors.
	Data []Blob
	// Losses lists what the plan has and bubblewrap cannot carry.
	Losses []plan.Note
}

// Blob is what must be readable at a descriptor.
type Blob struct {
	FD   int
	Data []byte
}

// Render writes a plan as a bubblewrap command line. Contents and filters get the descriptors from firstFD on that the plan does not
// use itself.
//
// For a plan of [Parse] nothing is lost: the line is parsed to the same plan by the same caller, but for Consumed, which has the
// descriptors given here instead of those the first line was read from. Rendered again, that plan gives the same line. For a plan of
// nsrun's own the line is the nearest that there is, and Losses says what is missing.
func Render(p *plan.Plan, firstFD int) (Rendered, error) { return render(p, firstFD, false) }

// RenderInSession is [Render] for a bubblewrap that its caller starts in a terminal session of its own. There the sandbox's pid 1, and a command
// that makes no session itself, stay in bubblewrap's process group, so that its caller can kill all of them in one step.
func RenderInSession(p *plan.Plan, firstFD int) (Rendered, error) { return render(p, firstFD, true) }

func render(p *plan.Plan, firstFD int, inSession bool) (Rendered, error) {
	r := &renderer{plan: p, next: firstFD, taken: taken(p), inSession: inSession}
	if p.Bwrap != nil {
		r.bubblewrap(p.Bwrap)
	} else {
		r.native()
	}
	r.confinement()
	args := append(append(r.args, "--"), p.Command...)
	if err := checkWords(p.Command, args); err != nil {
		return Rendered{}, err
	}
	return Rendered{Args: args, Data: r.data, Losses: r.losses}, nil
}

func checkWords(command, args []string) error {
	switch {
	case len(command) == 0:
		return errors.New("no command")
	case len(args) > maxWords:
		return fmt.Errorf("%d words: bubblewrap takes %d", len(args), maxWords)
	}
	for i, word := range args {
		if strings.Contains(word, "\x00") {
			return fmt.Errorf("word %d holds a NUL byte", i+1)
		}
	}
	return nil
}

// renderer is the state of one Render.
type renderer struct {
	plan   *plan.Plan
	args   []string
	late   []string // what has to wait for all other mounts
	data   []Blob
	losses []plan.Note
	next   int
	taken  []int

	inSession bool // the caller has made the session
}

// option appends an option. That it is one with these operands is for tests to find out, not for users.
func (r *renderer) option(name string, operands ...string) {
	i := slices.IndexFunc(options[:], func(row option) bool { return row.name == name })
	if i < 0 || len(options[i].operands) != len(operands) {
		panic("bug: bubblewrap has no option " + strings.Join(append([]string{name}, operands...), " "))
	}
	r.args = append(append(r.args, name), operands...)
}

// text appends an option with an operand if there is one.
func (r *renderer) text(name string, value *string) {
	if value != nil {
		r.option(name, *value)
	}
}

func (r *renderer) each(name string, values []string) {
	for _, v := range values {
		r.option(name, v)
	}
}

// blob finds a descriptor for data.
func (r *renderer) blob(data []byte) string {
	for slices.Contains(r.taken, r.next) {
		r.next++
	}
	r.data = append(r.data, Blob{FD: r.next, Data: data})
	r.next++
	return strconv.Itoa(r.next - 1)
}

// taken lists the descriptors that a plan names.
func taken(p *plan.Plan) []int {
	var fds []int
	for _, op := range p.Mounts {
		if op.FD != nil {
			fds = append(fds, *op.FD)
		}
	}
	if p.Bwrap == nil {
		return fds
	}
	said := &parser{bw: *p.Bwrap}
	for _, row := range options {
		if row.fd != nil && *row.fd(said) != nil {
			fds = append(fds, **row.fd(said))
		}
	}
	return append(fds, p.Bwrap.SyncFDs...)
}

// bubblewrap writes a plan that follows bubblewrap's rules.
func (r *renderer) bubblewrap(b *plan.Bwrap) {
	r.mechanisms(r.plan.Mechanisms)
	said := &parser{bw: *b}
	for _, row := range options {
		switch {
		case row.flag != nil && *row.flag(said), row.namespace != "" && slices.Contains(r.plan.Namespaces, row.namespace):
			r.option(row.name)
		case row.fd != nil && *row.fd(said) != nil:
			r.option(row.name, strconv.Itoa(**row.fd(said)))
		}
	}
	r.text("--argv0", b.Argv0)
	r.ids()
	r.each("--hostname", b.Hostnames)
	r.text("--chdir", b.Chdir)
	r.environment()
	r.each("--lock-file", b.LockFiles)
	for _, fd := range b.SyncFDs {
		r.option("--sync-fd", strconv.Itoa(fd))
	}
	r.labels(b)
	for _, op := range r.plan.Mounts {
		r.draw(op)
	}
	for _, f := range b.Filters {
		r.option("--add-seccomp-fd", r.blob(f))
	}
	if !b.KeepCaps {
		r.capabilities(b.Caps)
	}
}

// mechanisms keeps bubblewrap from system calls that the plan does without.
func (r *renderer) mechanisms(m plan.Mechanisms) {
	if !m.Openat2 {
		r.args = append(r.args, debugOption+noOpenat2)
	}
	if !m.MountAPI {
		r.args = append(r.args, debugOption+noMountSetattr)
	}
}

func (r *renderer) labels(b *plan.Bwrap) {
	for _, l := range []struct{ name, value string }{{"--exec-label", b.ExecLabel}, {"--file-label", b.FileLabel}} {
		if l.value != "" {
			r.option(l.name, l.value)
		}
	}
}

// namespaces asks for those of the plan. A mount namespace goes without saying.
func (r *renderer) namespaces() {
	names := map[string]string{plan.User: "--unshare-user", plan.Pid: "--unshare-pid", plan.Ipc: "--unshare-ipc", plan.Uts: "--unshare-uts",
		plan.Net: "--unshare-net", plan.Cgroup: "--unshare-cgroup-try"}
	for _, ns := range r.plan.Namespaces {
		if name, ok := names[ns]; ok {
			r.option(name)
		}
	}
}

func (r *renderer) ids() {
	id := r.plan.Identity
	if id.UID != id.HostUID {
		r.option("--uid", strconv.Itoa(id.UID))
	}
	if id.GID != id.HostGID {
		r.option("--gid", strconv.Itoa(id.GID))
	}
}

// environment sets each variable anew, so that the line says it all.
func (r *renderer) environment() {
	r.option("--clearenv")
	seen := map[string]bool{}
	for _, entry := range r.plan.Env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[name] {
			r.lose("env", "entries of the environment that cannot be set one by one are left out", "", strconv.Quote(entry))
			continue
		}
		seen[name] = true
		r.option("--setenv", name, value)
	}
}

func (r *renderer) capabilities(caps []int) {
	r.option("--cap-drop", "ALL")
	for _, number := range caps {
		word := strconv.Itoa(number)
		if number < len(capNames) {
			word = "cap_" + capNames[number]
		}
		r.option("--cap-add", word)
	}
}
