package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sections are the groups of attack cases that this package answers for, with the number of cases in each: FS01 to FS37, and so on.
var sections = []struct {
	prefix string
	cases  int
}{{"FS", 37}, {"PR", 27}, {"MN", 23}, {"ST", 15}, {"FE", 10}, {"PC", 17}, {"SC", 37}, {"NE", 17}, {"RE", 19}, {"LI", 14}}

// notInThisBuild are cases that no test here answers, and why.
var notInThisBuild = map[string]string{
	"FS16": "protected names in a writable grant are no feature of this version: what is granted writable is writable",
	"ST07": "the root of the view is always nsrun's own tmpfs: no /proc of a target root exists that could be a symlink",
	"ST08": "the same for /dev",
	"ST10": "the peer is asked of the sandbox's own devpts by TIOCGPTPEER; cmd/nsrun/terminal_test.go tries the terminal",
	"NE16": "this version has no proxy",
	"RE09": "nothing counts output: it goes to the caller's descriptors, and --limit output_bytes is refused",
	"RE10": "nothing records output, and there is no audit log",
	"RE17": "beside pids no limit on message queues, timers, signals or watches is a word of a policy yet",
	"LI11": "this version writes no audit log",
	"LI12": "this version writes no audit log",
	"LI13": "this version writes no audit log",
}

// attackCases is every case that is tried.
func attackCases() []attackCase {
	return slices.Concat(fileCases(), fileTests(), procCases(), procTests(), mountCases(), setupCases(), inheritCases(), controlCases(),
		kernelCases(), kernelTests(), netCases(), loadCases(), lifeCases())
}

func TestEveryIDOnce(t *testing.T) {
	found := map[string]int{}
	for _, r := range attackCases() {
		found[r.id]++
		assert.NotEmpty(t, r.what, "%s says what is tried", r.id)
		assert.True(t, len(r.tries) > 0 || r.test != nil, "%s tries something", r.id)
		for _, c := range r.tries {
			assert.NotEmpty(t, c.want, "%s: %s says what it expects", r.id, c.act)
		}
	}
	for id, reason := range notInThisBuild {
		found[id]++
		assert.NotEmpty(t, reason, id)
	}
	all := 0
	for _, s := range sections {
		for i := range s.cases {
			id := fmt.Sprintf("%s%02d", s.prefix, i+1)
			assert.Equal(t, 1, found[id], "%s stands exactly once in one of the two tables", id)
			all++
		}
	}
	assert.Equal(t, 216, all, "attack cases")
	assert.Len(t, found, all, "no case that is in no section")
	assert.Len(t, attackCases(), all-len(notInThisBuild), "cases that are tried")
}

func TestAttackCases(t *testing.T) {
	var lines []string
	for _, w := range worlds(t) {
		s := &score{}
		t.Run("as "+w.name, func(t *testing.T) {
			e := w.in(t, nil, "/bin/true")
			need(t, e.code == 0, "a sandbox by the default policy; nsrun says: "+e.stderr)
			for _, r := range attackCases() {
				if r.only == "" || r.only == w.name {
					t.Run(r.id, func(t *testing.T) { r.counted(t, w, s) })
				}
			}
		})
		if flag.Lookup("test.run").Value.String() == "" {
			assert.GreaterOrEqual(t, s.all, 195, "cases tried as %s", w.name)
		}
		testenv.Count(t, "attack cases", s.all)
		lines = append(lines, fmt.Sprintf("%s as %s", s, w.name))
		w.compare(t)
	}
	t.Log("nsrun stopped " + strings.Join(lines, ", "))
}

// counted runs a case and adds it to the score.
func (r attackCase) counted(t *testing.T, w *world, s *score) {
	credit := false
	defer func() {
		if t.Skipped() {
			return
		}
		s.all++
		if !t.Failed() {
			s.stopped++
			if credit {
				s.credited++
			}
		}
	}()
	credit = r.run(t, w)
}

// TestAMissingFixtureCostsItsCasesOnly runs some cases where the user may make no message queue.
func TestAMissingFixtureCostsItsCasesOnly(t *testing.T) {
	if os.Getuid() != 0 || inVM {
		t.Skip("needs root, to mount a file system of message queues, and an ordinary user beside it")
	}
	place := t.TempDir() // its root and its mode are the IPC namespace's, wherever it is mounted
	self, err := os.Executable()
	require.NoError(t, err)
	cases := func(ci string) (string, error) {
		cmd := exec.Command("unshare", "-m", "-i", "sh", "-c", `mount -t mqueue none "$0" && chmod 0755 "$0" && exec "$@"`, place,
			self, "-test.v", "-test.run=^TestAttackCases$/^as_user$/^(PC13|PC14|PC15)$")
		cmd.Env = append(os.Environ(), "CI="+ci)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := cases("")
	require.NoError(t, err, out)
	for _, line := range []string{
		"--- SKIP: TestAttackCases/as_user/PC14", "this host lacks: POSIX message queues, which PC14 needs: permission denied",
		"--- PASS: TestAttackCases/as_user/PC13", "--- PASS: TestAttackCases/as_user/PC15", "count: attack cases: 2",
	} {
		assert.Contains(t, out, line)
	}
	out, err = cases("true")
	require.Error(t, err, "where CI is set, a missing fixture is a failure")
	assert.Contains(t, out, "--- FAIL: TestAttackCases/as_user/PC14")
	assert.Contains(t, out, "--- PASS: TestAttackCases/as_user/PC15")
}

// compare logs how bwrap answers the same acts: minimal root, all namespaces, no nested ones, no capabilities, clean environment.
func (w *world) compare(t *testing.T) {
	t.Helper()
	if os.Getenv("NSRUN_E2E_BWRAP") != "1" {
		return
	}
	if _, err := os.Stat("/usr/bin/bwrap"); err != nil {
		t.Log("no comparison: bwrap is not installed")
		return
	}
	var s score
	var open []string
	for _, r := range attackCases() {
		if len(r.tries) == 0 || len(r.flags) > 0 {
			continue
		}
		s.all++
		if w.bwrapStops(t, r) {
			s.stopped++
		} else {
			open = append(open, r.id)
		}
	}
	t.Logf("bwrap stopped %d of %d acts as %s, in the same way; reached: %v", s.stopped, s.all, w.name, open)
}

// bwrapStops is generous: any refusal counts, and a write that the host does not see.
func (w *world) bwrapStops(t *testing.T, r attackCase) bool {
	for _, c := range r.tries {
		w.fresh(t)
		if r.plant != nil {
			r.plant(t, w)
		}
		if c.root && w.uid != 0 || c.want == "REACHED" {
			continue
		}
		argv := bwrapWords(w)
		e := w.do(t, nil, append(argv, fields(w.fill.Replace(c.act))...)...)
		anyRefusal := try{act: c.act, want: c.want + " EPERM ENOSYS EACCES EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT ENODEV"}
		if anyRefusal.live(e) && !insideOnly[r.id] {
			return false
		}
	}
	return true
}

// insideOnly are cases whose acts bwrap lets succeed in a file system of its own, where the host does not see them.
var insideOnly = map[string]bool{"FS03": true, "FS10": true}

func bwrapWords(w *world) []string {
	return fields("bwrap --unshare-all --unshare-user --disable-userns --die-with-parent --new-session --cap-drop ALL --clearenv " +
		"--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/sbin /sbin " +
		"--proc /proc --dev /dev --tmpfs /tmp --setenv PATH /usr/bin --setenv HOME " + w.home +
		" --bind " + w.work + " " + w.work + " --ro-bind " + w.grant + " " + w.grant +
		" --ro-bind " + built.room + "/probe " + built.room + "/probe --chdir " + w.work + " -- " + built.probe)
}
