package backend_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

// box is one backend as one user has it.
type box struct {
	*world
	backend string // as the matrix names it
	flags   []string
	env     []string // beside the user's
}

// backends are the columns of the matrix, the strongest first, and how to ask for them.
var backends = []struct {
	name  string
	flags []string
}{
	{"native", []string{"--backend", "native"}}, {"bwrap", []string{"--backend", "bwrap"}}, {"docker", []string{"--backend", "docker"}},
	{"landlock", []string{"--backend", "landlock"}}, {"none", []string{"--backend", "none"}},
	{"subprocess", []string{"--isolation", "subprocess"}},
	// Without the second line what the first one leaves open shows.
	{"native-alone", []string{"--backend", "native", "--no-landlock", "--seccomp", "off"}},
	{"bwrap-alone", []string{"--backend", "bwrap", "--no-landlock", "--seccomp", "off"}},
	{"docker-alone", []string{"--backend", "docker", "--no-landlock", "--seccomp", "off"}},
	{"landlock-alone", []string{"--backend", "landlock", "--seccomp", "off"}},
}

// newBox skips a backend that this host has not.
func newBox(t *testing.T, w *world, backend string, flags []string) box {
	t.Helper()
	b := box{world: w, backend: backend, flags: flags}
	if backend == "native" || backend == "bwrap" {
		b.flags = slices.Concat(flags, testenv.WithoutLandlock())
	}
	why := ""
	switch backend, _, _ := strings.Cut(backend, "-"); backend {
	case "docker":
		if why = built.why; why == "" {
			b.env = []string{"PATH=" + built.path, "DOCKER_HOST=" + built.docker.Host}
		}
	case "bwrap":
		if _, err := exec.LookPath("bwrap"); err != nil {
			why = "bwrap is not installed (package bubblewrap)"
		}
	}
	if why == "" {
		if e := b.run(t, nil, "true"); e.code != 0 {
			why = "nsrun cannot run the default policy: " + e.stderr
		}
	}
	if why != "" {
		why = "no backend " + backend + " as " + w.name + ": " + why
		if os.Getenv("CI") != "" && !(strings.HasPrefix(backend, "docker") && (os.Getuid() != 0 || !testenv.All())) {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return b
}

// confined says whether there is a sandbox at all.
func (b box) confined() bool { return b.backend != "none" && b.backend != "subprocess" }

// alone says whether the backend is without its second line, Landlock and the filter.
func (b box) alone() bool { return strings.HasSuffix(b.backend, "-alone") }

// words are those of a run of nsrun.
func (b box) words(flags []string, command ...string) []string {
	words := append([]string{built.nsrun, "run"}, b.flags...)
	words = append(words, flags...)
	return append(append(words, "--"), command...)
}

func (b box) change(more func(*exec.Cmd)) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Env = append(c.Env, b.env...)
		if more != nil {
			more(c)
		}
	}
}

// run runs a command by the backend.
func (b box) run(t *testing.T, flags []string, command ...string) ending {
	t.Helper()
	return b.do(t, b.change(nil), b.words(flags, command...)...)
}

// shown are flags that show the helper's directory and the workspace.
func (b box) shown(more ...string) []string {
	return append([]string{"--workspace", b.work, "--ro", filepath.Dir(built.act), "--ro", b.grant}, more...)
}

// result is what --result tells.
type result struct {
	Verdict, Signal, Error string
	Code                   int
	Receipt                receipt
}

// receipt is the part of it that says what was on.
type receipt struct {
	Backend      string
	Namespaces   []string
	Network      string
	NetworkBy    string `json:"network_by"`
	Capabilities string
	NoNewPrivs   bool `json:"no_new_privs"`
	Landlock     *struct {
		Rights, Scopes []string
		Rules          int
	}
	Seccomp *struct {
		Filter  string
		Filters int
	}
	Limits   []limit
	KillTree string   `json:"kill_tree"`
	SelfTest []string `json:"self_test"`
	Holds    []string
	Lost     []string
	Notes    []struct{ Feature, Loss string }
}

type limit struct {
	Limit, By string
	Default   bool
}

// runForResult runs a command and reads its result.
func (b box) runForResult(t *testing.T, flags []string, command ...string) (result, ending) {
	t.Helper()
	b.results++
	name := fmt.Sprintf("%s/result-%d", b.world.run, b.results)
	e := b.run(t, append([]string{"--result", name}, flags...), command...)
	return readResult(t, name, e), e
}

func readResult(t *testing.T, name string, e ending) (r result) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err, e)
	require.NoError(t, json.Unmarshal(data, &r), "%s", data)
	return r
}

// reply is what an act came to.
type reply struct {
	Act   string
	Done  bool
	Error string
	Found json.RawMessage
}

func (r reply) String() string {
	if r.Done {
		return fmt.Sprintf("%s is done (found %.300s)", r.Act, r.Found)
	}
	return fmt.Sprintf("%s is not done: %.300s", r.Act, r.Error)
}

// replies reads the lines of the helper.
func replies(t *testing.T, e ending) (all []reply) {
	t.Helper()
	for line := range strings.Lines(e.stdout) {
		var r reply
		require.NoError(t, json.Unmarshal([]byte(line), &r), "%q\n%v", line, e)
		all = append(all, r)
	}
	return all
}

// batch is the helper's command line for many acts.
func batch(t *testing.T, list [][]string) []string {
	t.Helper()
	data, err := json.Marshal(list)
	require.NoError(t, err)
	return []string{built.act, "batch", string(data)}
}

// act does one act by the backend.
func (b box) act(t *testing.T, flags []string, words ...string) (reply, ending) {
	t.Helper()
	e := b.run(t, b.shown(flags...), append([]string{built.act}, words...)...)
	if all := replies(t, e); len(all) > 0 {
		return all[0], e
	}
	return reply{Act: words[0], Error: "no answer"}, e
}
