package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// grouped reports whether a cgroup with the controller can be made here.
func grouped(controller string) bool {
	return slices.ContainsFunc(probe.Quick().Groups, func(g facts.Group) bool { return slices.Contains(g.Controllers, controller) })
}

// groups lists the cgroups of sandboxes that there are.
func groups() (names []string) {
	for _, g := range probe.Quick().Groups {
		found, _ := filepath.Glob(filepath.Join(g.Dir, "nsrun-*"))
		names = append(names, found...)
	}
	return names
}

// since lists those that have come since then.
func since(before []string) []string {
	return slices.DeleteFunc(groups(), func(g string) bool { return slices.Contains(before, g) })
}

// noneLeft waits until those that are here now are gone: tests of other packages make some too.
func noneLeft(t *testing.T, before []string) {
	t.Helper()
	for _, g := range since(before) {
		eventually(t, g+" is gone", func() bool { _, err := os.Stat(g); return err != nil })
	}
}

func populated(g string) bool {
	procs, err := os.ReadFile(filepath.Join(g, "cgroup.procs"))
	return err == nil && strings.TrimSpace(string(procs)) != ""
}

// misbehaving are programs that want more than they get, and what becomes of each.
var misbehaving = map[string]struct {
	script string
	limit  string
	n      int64
	want   Verdict
	group  string // the controller without which it only fails
}{
	"infinite loop":   {script: "while :; do :; done", limit: "cpu_seconds", n: 1, want: CPU},
	"deaf loop":       {script: "trap '' XCPU; while :; do :; done", limit: "cpu_seconds", n: 1, want: CPU},
	"memory eater":    {script: "exec dd if=/dev/zero of=/dev/null bs=200M count=1", limit: "memory_mb", n: 48, want: Memory, group: "memory"},
	"fork bomb":       {script: "while :; do sleep 1000 & done", limit: "pids", n: 40, want: Pids, group: "pids"},
	"disk filler":     {script: "exec dd if=/dev/zero of=/tmp/x bs=1M count=100", limit: "file_size_mb", n: 2, want: FileSize},
	"tmpfs filler":    {script: "exec dd if=/dev/zero of=/tmp/x bs=1M count=100", limit: "tmpfs_mb", n: 2, want: Exit},
	"output flood":    {script: "exec yes", limit: "output_bytes", n: 100_000, want: Output},
	"error flood":     {script: "exec yes >&2", limit: "output_bytes", n: 100_000, want: Output},
	"sigterm ignorer": {script: "trap '' TERM; while :; do sleep 1; done", want: Timeout},
	"daemon":          {script: "(setsid sleep 1000 &) ; (setsid sleep 1000 >/dev/null 2>&1 &) ; echo done", want: OK},
}

// patience is how long a tool that ignores SIGTERM may run, on hardware.
const patience = 200 * time.Millisecond

// TestMisbehavingTools runs each of them by itself and in a session that goes on: the verdict is right, it comes in time, a process of the
// host's lives, and nothing is left.
func TestMisbehavingTools(t *testing.T) {
	canary := exec.Command("sleep", "1000")
	require.NoError(t, canary.Start())
	defer func() { _ = canary.Process.Kill(); _ = canary.Wait() }()
	for name, tool := range misbehaving {
		if tool.limit == "pids" && !grouped("pids") && os.Getuid() == 0 {
			continue // refused: see plan
		}
		builder := func() *Builder {
			// Only a tool that another bound does not end reaches this time, and has another verdict then.
			b := NewPolicy().Timeout(testenv.Limit(0)).KillGrace(100 * time.Millisecond)
			if tool.limit != "" {
				b.Limit(tool.limit, tool.n)
			}
			return b
		}
		for _, way := range []string{"alone", "session"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				before := groups()
				mark := fmt.Sprintf("NSRUN_MARK=%d-%d", os.Getpid(), time.Now().UnixNano())
				opts := &ExecOptions{Env: []string{mark}}
				var result *ExecResult
				var err error
				if way == "alone" {
					b := builder()
					if tool.want == Timeout {
						b.Timeout(testenv.Scale(patience))
					}
					result, err = Run(context.Background(), built(t, b), Shell(tool.script), opts)
				} else {
					s := opened(t, builder())
					first := *opts
					if tool.want == Timeout {
						first.Timeout = testenv.Scale(patience)
					}
					result, err = s.Exec(context.Background(), Shell(tool.script), &first)
					if assert.NoError(t, err) && tool.want == Pids { // its sleepers hold the room
						if grouped(tool.group) { // else each command's own processes are counted
							assertUsedUp(t, s)
						}
						opts.Fresh = true
					}
					if next, err := s.Exec(context.Background(), Shell("echo lives"), opts); assert.NoError(t, err) {
						assert.Equal(t, "lives\n", string(next.Stdout), "the session goes on: %+v", next.Result)
					}
					require.NoError(t, s.Close())
				}
				require.NoError(t, err)
				want := tool.want
				if tool.group != "" && !grouped(tool.group) {
					want = Exit
				}
				assert.Equal(t, want, result.Verdict, "%+v\n%s", result.Result, result.Stderr)
				if want == Memory || want == Pids {
					assert.Contains(t, result.Hit, tool.limit)
				}
				if want == Output {
					assert.True(t, result.Cut)
					assert.LessOrEqual(t, len(result.Stdout)+len(result.Stderr), DefaultMaxOutput)
				}
				eventually(t, "nothing of it is left", func() bool { return len(marked(mark)) == 0 })
				noneLeft(t, before)
			})
		}
	}
	assert.NoError(t, canary.Process.Signal(unix.Signal(0)), "the host's process lives")
}

// TestLimitsHoldForAllTogether starts two commands of a session, each of which would fit.
func TestLimitsHoldForAllTogether(t *testing.T) {
	if !grouped("memory") {
		t.Skip("no cgroup with the controller memory can be made here")
	}
	s := opened(t, NewPolicy().Limit("memory_mb", 100))
	const half = "dd if=/dev/zero of=/dev/null bs=70M count=1 2>/dev/null && echo fits"
	assert.Equal(t, "fits\n", string(sh(t, s, half).Stdout))
	const long = "dd if=/dev/zero of=/dev/null bs=70M count=200 2>/dev/null"
	result := sh(t, s, long+" & "+long+"; a=$?; wait $!; b=$?; exit $((a > b ? a : b))")
	assert.Equal(t, Memory, result.Verdict, "%+v", result.Result)
	assert.Equal(t, []string{"memory_mb"}, result.Hit)
	assert.Equal(t, "fits\n", string(sh(t, s, half).Stdout), "and the session goes on")
}

// TestAWeightIsTheCgroups reads that of a session's cgroup from outside, and that of one without.
func TestAWeightIsTheCgroups(t *testing.T) {
	if !slices.ContainsFunc(probe.Quick().Groups, func(g facts.Group) bool { return g.Version == 2 && slices.Contains(g.Controllers, "cpu") }) {
		t.Skip("no cgroup of version 2 with the controller cpu can be made here")
	}
	for want, b := range map[string]*Builder{"37": NewPolicy().Limit("cpu_weight", 37), "100": NewPolicy().Limit("cpu_percent", 400)} {
		before := groups()
		s := opened(t, b)
		sh(t, s, "true")
		var weights []string
		for _, g := range since(before) {
			if data, err := os.ReadFile(filepath.Join(g, "cpu.weight")); err == nil {
				weights = append(weights, strings.TrimSpace(string(data)))
			}
		}
		assert.Contains(t, weights, want)
		require.NoError(t, s.Close())
	}
}

// assertUsedUp uses up the pids of a sandbox that are left, until one more is asked for: that is refused, and does not wait for ever.
func assertUsedUp(t *testing.T, s *Session) {
	t.Helper()
	returns(t, "StartProcess", func() {
		for range 10 {
			if _, err := start(context.Background(), s, []string{"sleep", "1000"}, ExecOptions{}); err != nil {
				assert.ErrorContains(t, err, "limit (pids): it is used up before the command begins")
				return
			}
		}
		t.Error("there is no end of places")
	})
}

// TestAKilledOwnersCgroupIsRemoved kills an nsrun of its own in the middle of a run, and starts another one.
func TestAKilledOwnersCgroupIsRemoved(t *testing.T) {
	if !grouped("pids") {
		t.Skip("no cgroup with the controller pids can be made here")
	}
	bin := filepath.Join(t.TempDir(), "nsrun")
	require.NoError(t, testenv.Build(bin, "../../cmd/nsrun"))
	before, m := groups(), mark("victim")
	victim := exec.Command(bin, "run", "--fallback", "degrade", "--limit", "pids=50", "--setenv", m, "--", "sh", "-c", "echo up; sleep 1000; :") // which is not in the midst of execve(2) when it is looked for
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	_, err = out.Read(make([]byte, 3))
	require.NoError(t, err)
	own := slices.DeleteFunc(since(before), func(g string) bool { // there may be those of tests of other packages
		procs, _ := os.ReadFile(filepath.Join(g, "cgroup.procs"))
		return !slices.ContainsFunc(append(marked(m), victim.Process.Pid), func(pid int) bool {
			return slices.Contains(strings.Fields(string(procs)), strconv.Itoa(pid))
		})
	})
	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()
	require.NotEmpty(t, own, "positive control: somebody has to remove it")
	eventually(t, "its processes are gone", func() bool { return !slices.ContainsFunc(own, populated) })
	text, err := exec.Command(bin, "run", "--fallback", "degrade", "--limit", "pids=50", "--", "true").CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, g := range own {
		eventually(t, g+" is gone", func() bool { _, err := os.Stat(g); return err != nil })
	}
}

// TestTheHostsNumbersStay bounds the process numbers of a sandbox where the kernel has a bound for each pid namespace, and never the host's.
func TestTheHostsNumbersStay(t *testing.T) {
	const file = "/proc/sys/kernel/pid_max"
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	req, _ := request(t, "sh", "-c", "mkfifo /tmp/f; n=0; while [ $n -lt 320 ]; do (read x < /tmp/f) & n=$((n + 1)); done 2>/dev/null")
	p, err := plan.Compile(req, probe.Quick())
	require.NoError(t, err)
	result, err := RunPlan(p, backend.Options{})
	require.NoError(t, err)
	assert.Equal(t, OK, result.Verdict, "positive control: %+v", result)
	known := probe.Host()
	own := known.State(facts.PidMax) == facts.Yes
	p.PidMax = 310
	result, err = RunPlan(p, backend.Options{})
	if !own { // whatever the plan says
		require.ErrorContains(t, err, "pid_max")
	} else if known.PidMaxLeast <= 310 {
		require.NoError(t, err)
		assert.Equal(t, Exit, result.Verdict, "there cannot be as many: %+v", result)
	}
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}

// TestARefusedNumberIsNoReasonToFail plans again where the kernel, or an LSM, does not take what a fact has promised.
func TestARefusedNumberIsNoReasonToFail(t *testing.T) {
	req, _ := request(t, "true")
	known := probe.Quick().With(facts.PidMax, facts.Answer{State: facts.Yes})
	known.UID, known.PidMaxLeast, known.Groups, known.Manager = 0, 301, nil, nil
	got := func() facts.Facts { return known }
	tried := 0
	p, err := attemptBy(got, got, req, func(p *plan.Plan) error {
		if tried++; tried == 1 {
			assert.Positive(t, p.PidMax)
			return &Error{Stage: "pid_max", Op: "write", Err: unix.EPERM}
		}
		return nil
	})
	require.NoError(t, err)
	assert.Zero(t, p.PidMax)
	assert.Equal(t, 2, tried)
}

// TestATreeThatFailsIsNotUsed keeps the others, and tells of it.
func TestATreeThatFailsIsNotUsed(t *testing.T) {
	req, _ := request(t, "true")
	req.Policy.Fallback = policy.Degrade
	req.Policy = req.Policy.WithLimit("memory_mb", 100).WithLimit("pids", 50).WithLimit("io_read_mb", 9).WithLimit("cpu_percent", 50)
	known := probe.Quick()
	known.Manager, known.Groups = nil, []facts.Group{{Version: 1, Dir: "/m", Controllers: []string{"memory"}}, {Version: 1, Dir: "/p", Controllers: []string{"pids"}},
		{Version: 2, Dir: "/rest", Controllers: []string{"io", "cpu"}}}
	fails := []*Error{{Stage: "cgroup", Op: "io", Path: "/rest", Err: errors.New("no disk")}, {Stage: "cgroup", Op: "make", Path: "/p", Err: errors.New("no room")}}
	got := func() facts.Facts { return known }
	p, err := attemptBy(got, got, req, func(*plan.Plan) error {
		if len(fails) == 0 {
			return nil
		}
		first := fails[0]
		fails = fails[1:]
		return first
	})
	require.NoError(t, err)
	var dirs []string
	for _, tree := range p.Cgroups {
		dirs = append(dirs, tree.Dir)
	}
	assert.ElementsMatch(t, []string{"/m", "/rest"}, dirs)
	assert.Contains(t, p.EnforcedBy, plan.Enforcement{Limit: "cpu_percent=50", By: "cgroup v2"})
	assert.Regexp(t, `io_read_mb: the speed of disks takes a cgroup .*; found: .*no disk; .*no room`, p.String())
}

// TestOnlyARunOfItsOwnForksToPlan keeps what forks away from programs that may be large, and from backends that have no use for it.
func TestOnlyARunOfItsOwnForksToPlan(t *testing.T) {
	forks := func(change func(*plan.Request)) bool {
		req := plan.Request{Sole: true}
		change(&req)
		_, asked := factsFor(req).Answers[facts.PidMax]
		return asked
	}
	assert.False(t, forks(func(r *plan.Request) { r.Sole = false }), "the library")
	assert.False(t, forks(func(r *plan.Request) { r.Policy.Backend = policy.BackendLandlock }))
	assert.False(t, forks(func(r *plan.Request) { r.Policy.Isolation = policy.Subprocess }))
	free := slices.ContainsFunc(probe.Quick().Groups, func(g facts.Group) bool { return g.Version == 2 && slices.Contains(g.Controllers, "pids") })
	if os.Getuid() == 0 && !free {
		assert.True(t, forks(func(*plan.Request) {}), "positive control")
	}
}
