package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/e2e/vm"
	"github.com/nsrun/nsrun/e2e/vm/guest"
	"github.com/nsrun/nsrun/internal/testenv"
)

// harness is what the machines have in common.
type harness struct {
	module string
	accel  string
	only   []string // the parts of go test's -run: TestVM, machine, user, suite, and what is left to the tests inside

	building sync.Mutex
	trees    map[string]vm.Tree // payloads and roots, by name and architecture
	kernels  map[string]*vm.Kernel

	counting sync.Mutex
	counts   []count
}

// count is what came of one user's tests on one machine.
type count struct {
	machine, release, user string
	passed, failed         int
	skipped                map[string]int // by reason
	seconds                float64
}

// slow is how many times slower than hardware a machine is.
func (h *harness) slow(m machine) int {
	if h.accel == "kvm" && m.goarch() == runtime.GOARCH {
		return 2
	}
	return 15
}

// stepped is what one step came to.
type stepped struct {
	step string
	code int
	out  bytes.Buffer
	left string
	took time.Duration
}

// run boots one machine and makes subtests of its output. Several machines that share a boot are made in it one after another.
func (h *harness) run(t *testing.T, shared []machine) {
	m := shared[0] // the kernel, the root and the command line are the same for all
	dir := t.TempDir()
	if *keepVM {
		var err error
		dir, err = os.MkdirTemp("", "nsrun-vm-"+m.bootName()+"-")
		require.NoError(t, err)
	}
	line, found := vm.FindLine(m.line)
	require.True(t, found, "no line %s in vm.Lines", m.line)
	_, err := vm.FindQemu(m.goarch())
	need(t, err == nil, fmt.Sprint(err))
	kernel, err := h.kernel(line, m.goarch())
	require.NoError(t, err)
	root, err := h.rootOf(shared)
	require.NoError(t, err)
	var plan guest.Plan
	steps, limit := 0, 5*time.Minute
	for _, m := range shared {
		hosted := guest.Hosted{Host: m.host, Steps: h.steps(m)}
		require.NotEmpty(t, hosted.Steps, "-run names no step of %s: TestVM/BOOT/MACHINE/root or user/talk or a suite/TEST", m.name)
		for _, s := range hosted.Steps {
			limit += time.Duration(s.Seconds) * time.Second
		}
		plan.Hosts, steps = append(plan.Hosts, hosted), steps+len(hosted.Steps)
	}
	image, initramfs, err := vm.Prepare(dir, kernel, root, plan)
	require.NoError(t, err)
	accel := h.accel
	if m.goarch() != runtime.GOARCH {
		accel = "tcg"
	}
	box := vm.Machine{Arch: m.goarch(), Accel: accel, MemoryMB: 3072, Kernel: image, Initramfs: initramfs, Append: m.append, Dir: dir,
		Again: func(why error) { t.Logf("tried once more: %v", why) }}
	if m.memory > 0 {
		box.MemoryMB = m.memory
	}
	t.Logf("%s, SHA-256 of the image %s", kernel.Package, kernel.Sum)
	if *keepVM {
		t.Logf("boot it by: %s", box.Command())
	}
	results := make(chan *stepped, steps)
	ended := make(chan error, 1)
	go func() {
		defer close(results)
		ended <- box.Boot(t.Context(), limit, collect(results, filepath.Join(dir, "output")))
	}()
	for i, m := range shared {
		t.Run(m.name, func(t *testing.T) {
			said := h.replay(t, m, kernel.Release, plan.Hosts[i].Steps, results)
			if i == len(shared)-1 { // the machine's own failure says more than what its output lacks
				require.NoError(t, <-ended)
			}
			said.compare(t, m, len(h.only) < 4 && !*fullVM)
		})
	}
}

// collect makes results of frames. A file has the output as it comes, for those who watch.
func collect(results chan<- *stepped, log string) func(guest.Frame) {
	var r *stepped
	var began time.Time
	file, err := os.Create(log)
	return func(f guest.Frame) {
		if err == nil {
			fmt.Fprintf(file, "%s", f.Data)
		}
		if f.Kind == guest.Halt {
			file.Close()
		}
		if f.Kind != guest.Begin && (r == nil || f.Name != r.step) {
			return // what a step's leftovers print after its end
		}
		switch f.Kind {
		case guest.Begin:
			r, began = &stepped{step: f.Name}, time.Now()
		case guest.Out:
			r.out.Write(f.Data)
		case guest.Left:
			r.left += string(f.Data) + "\n"
		case guest.Exit:
			r.code, _ = strconv.Atoi(string(f.Data))
			r.took = time.Since(began)
			results <- r
			r = nil
		}
	}
}

// kernel fetches and reads a kernel once.
func (h *harness) kernel(line vm.Line, arch string) (*vm.Kernel, error) {
	h.building.Lock()
	defer h.building.Unlock()
	key := line.Name + " " + arch
	if k := h.kernels[key]; k != nil {
		return k, nil
	}
	k, err := vm.FetchKernel(line.Name, line.Suite, arch)
	if err == nil {
		h.kernels[key] = k
	}
	return k, err
}

// rootOf returns the machines' root with all that runs in it, and nothing more: it has to fit into the memory.
func (h *harness) rootOf(shared []machine) (vm.Tree, error) {
	m := shared[0]
	h.building.Lock()
	defer h.building.Unlock()
	payload, err := h.tree("payload", m.goarch(), func(arch string) (vm.Tree, error) {
		var tests []string
		for _, s := range suites {
			tests = append(tests, s.dir)
		}
		t := vm.Tree{}
		return t, t.Payload(h.module, arch, programs, tests)
	})
	if err != nil {
		return nil, err
	}
	base, err := h.tree(m.root, m.goarch(), map[string]func(string) (vm.Tree, error){"debian": vm.DebianRoot, "busybox": vm.BusyboxRoot, "musl": vm.MuslRoot,
		"bare": func(string) (vm.Tree, error) { return vm.Tree{}, nil }}[m.root])
	if err != nil {
		return nil, err
	}
	root := maps.Clone(base)
	for name, e := range payload {
		if slices.ContainsFunc(shared, func(m machine) bool { return m.has(name) }) {
			root[name] = e
		}
	}
	return root, nil
}

// tree makes a tree once.
func (h *harness) tree(name, arch string, fresh func(arch string) (vm.Tree, error)) (vm.Tree, error) {
	key := name + " " + arch
	if t := h.trees[key]; t != nil {
		return t, nil
	}
	t, err := fresh(arch)
	if err == nil {
		h.trees[key] = t
	}
	return t, err
}

// has says whether a file of the payload is needed in a machine.
func (m machine) has(file string) bool {
	rel, ofModule := strings.CutPrefix(file, vm.ModuleDir+"/")
	switch {
	case file == m.host.AppArmor:
		return true
	case !ofModule:
		return len(m.names()) > 0 || file == "/init" || file == nsrunInVM
	case path.Base(file) == "run.test":
		return slices.ContainsFunc(m.names(), func(name string) bool { return suites[name].dir+"/run.test" == rel })
	}
	return len(m.names()) > 0
}

// users are who the tests are run as.
var users = []struct {
	name string
	id   int
}{{"root", 0}, {"user", 1000}}

// steps are a machine's: the talk and each suite, as each user.
func (h *harness) steps(m machine) (steps []guest.Step) {
	for _, u := range users {
		if !h.runs(3, u.name) {
			continue
		}
		if h.runs(4, "talk") {
			steps = append(steps, talkSteps(u.name, u.id)...)
		}
		for _, name := range m.names() {
			if h.runs(4, name) {
				steps = append(steps, h.suiteStep(m, suites[name], u.name+"/"+name, u.id))
			}
		}
	}
	return steps
}

func (h *harness) suiteStep(m machine, s suite, name string, uid int) guest.Step {
	seconds := s.seconds * h.slow(m)
	argv := []string{filepath.Join(vm.ModuleDir, s.dir, "run.test"), "-test.v=test2json", "-test.paniconexit0", fmt.Sprintf("-test.timeout=%ds", seconds-10)}
	switch {
	case len(h.only) > 5:
		argv = append(argv, "-test.run="+strings.Join(h.only[5:], "/"))
	case s.only != "":
		argv = append(argv, "-test.run="+s.only)
	}
	if s.skip != "" && !*fullVM {
		argv = append(argv, "-test.skip="+s.skip)
	}
	env := []string{"NSRUN_TEST_VM=" + m.name, testenv.Built + "=" + vm.BuiltDir, fmt.Sprintf("%s=%d", testenv.Slow, h.slow(m))}
	if m.host.ReadOnly {
		env = append(env, "TMPDIR="+guest.WritableTmp)
	}
	return guest.Step{Name: name, UID: uid, Argv: argv, Dir: filepath.Join(vm.ModuleDir, s.dir), Seconds: seconds, Env: env}
}

// runs says whether a part of a test's name is asked for.
func (h *harness) runs(part int, name string) bool {
	if part >= len(h.only) {
		return true
	}
	match, err := regexp.MatchString(h.only[part], name)
	return err != nil || match
}

// replay makes subtests of the results, for each user and suite, and returns what was said.
func (h *harness) replay(t *testing.T, m machine, release string, steps []guest.Step, results <-chan *stepped) *golden {
	said := &golden{}
	for _, u := range users {
		if !h.runs(3, u.name) {
			continue
		}
		c := count{machine: m.name, release: release, user: u.name, skipped: map[string]int{}}
		t.Run(u.name, func(t *testing.T) {
			for _, s := range steps {
				name, ours := strings.CutPrefix(s.Name, u.name+"/")
				if !ours {
					continue
				}
				r := <-results
				t.Run(name, func(t *testing.T) {
					require.NotNil(t, r, "the machine has not come so far")
					require.Equal(t, s.Name, r.step)
					c.seconds += r.took.Seconds()
					if strings.HasPrefix(name, "talk/") {
						said.record(t, m, r)
						assert.Empty(t, r.left, "left behind")
						return
					}
					c.add(t, r)
				})
			}
		})
		if len(h.only) < 5 && !*fullVM {
			said.add(u.name+"/skipped", c.reasons())
		}
		h.counting.Lock()
		h.counts = append(h.counts, c)
		h.counting.Unlock()
	}
	return said
}

// reasons are those of skipped tests, by suite.
func (c *count) reasons() (text string) {
	for _, why := range slices.Sorted(maps.Keys(c.skipped)) {
		text += fmt.Sprintf("%d of %s\n", c.skipped[why], why)
	}
	return text
}

// event is a line of go tool test2json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// add makes subtests of one step's events.
func (c *count) add(t *testing.T, r *stepped) {
	_, suite, _ := strings.Cut(r.step, "/")
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = &r.out
	whole := r.out.String()
	text, err := cmd.Output()
	require.NoError(t, err)
	said, running := map[string]*strings.Builder{}, map[string]bool{}
	ended := 0
	for line := range bytes.Lines(text) {
		var e event
		require.NoError(t, json.Unmarshal(line, &e))
		if said[e.Test] == nil {
			said[e.Test] = &strings.Builder{}
		}
		said[e.Test].WriteString(e.Output)
		if e.Action == "run" {
			running[e.Test] = true
		}
		if e.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action) {
			ended++
			delete(running, e.Test)
			c.one(t, suite, e, said[e.Test].String())
		}
	}
	if len(running) > 0 {
		t.Errorf("begun and not ended: %v", slices.Sorted(maps.Keys(running)))
	}
	if r.left != "" {
		t.Errorf("left behind: %s", r.left)
	}
	if r.code != 0 && !t.Failed() || ended == 0 {
		t.Errorf("exit code %d after %v\n%s", r.code, r.took, whole[max(0, len(whole)-20000):])
	}
}

// one is one test of the guest's.
func (c *count) one(t *testing.T, suite string, e event, said string) {
	t.Run(e.Test, func(t *testing.T) {
		t.Logf("%.2f s in the guest\n%s", e.Elapsed, said)
		switch e.Action {
		case "fail":
			c.failed++
			t.Fail()
		case "skip":
			c.skipped[suite+": "+reason(said)]++
			t.SkipNow()
		default:
			c.passed++
		}
	})
}

// reason is why a test was skipped.
func reason(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if file, why, ok := strings.Cut(line, ": "); ok && strings.Contains(file, ".go:") {
			return why
		}
	}
	return "no reason given"
}

// table is what all machines came to.
func (h *harness) table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "machine\tkernel\tuser\tpassed\tfailed\tskipped\tseconds")
	slices.SortFunc(h.counts, func(a, b count) int { return strings.Compare(a.machine+a.user, b.machine+b.user) })
	for _, c := range h.counts {
		skipped := 0
		for _, n := range c.skipped {
			skipped += n
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%.0f\n", c.machine, c.release, c.user, c.passed, c.failed, skipped, c.seconds)
	}
	w.Flush()
	for _, c := range h.counts {
		for line := range strings.Lines(c.reasons()) {
			fmt.Fprintf(&out, "%s %s skipped %s", c.machine, c.user, line)
		}
	}
	return out.String()
}
