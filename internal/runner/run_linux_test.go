package runner

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func request(t *testing.T, command ...string) (plan.Request, string) {
	t.Helper()
	dir := t.TempDir()
	pol := policy.Default("/home/x").Grant(dir, true, "test")
	pol, _ = policy.Normalize(pol, policy.Operator{})
	pol.Dir = dir
	if !probe.Quick().Can(facts.Landlock) {
		pol.Fallback = policy.Degrade
	}
	return plan.Request{Policy: pol, Command: command, Environ: os.Environ()}, dir
}

func TestStartRunsAndTells(t *testing.T) {
	req, dir := request(t, "sh", "-c", "echo x > made; exit 3")
	p, result, err := Foreground(req, backend.Options{})
	require.NoError(t, err)
	require.NotNil(t, p)
	assert.Equal(t, Exit, result.Verdict)
	assert.Equal(t, 3, result.Code)
	require.NotNil(t, result.ExitStatus)
	assert.Equal(t, 3, *result.ExitStatus)
	assert.Equal(t, p.Namespaces, result.Receipt.Namespaces)
	assert.Positive(t, result.WallMS)
	assert.Positive(t, result.MaxRSSKiB)
	assert.FileExists(t, filepath.Join(dir, "made"))
}

func TestCancelEndsEverything(t *testing.T) {
	req, _ := request(t, "sh", "-c", "trap '' TERM INT; sleep 1000 & sleep 1000")
	cancel := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { close(cancel) })
	var result Result
	var err error
	returns(t, "Foreground", func() { _, result, err = Foreground(req, backend.Options{Cancel: cancel}) })
	require.NoError(t, err)
	assert.Equal(t, Signal, result.Verdict)
	assert.Equal(t, "SIGKILL", result.Signal)
}

func TestMissingOptionalSourcesAreNotes(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	req, _ := request(t, "true")
	req.Policy.FS = append(req.Policy.FS, policy.FS{Kind: policy.Bind, Source: "/none/such", Dest: "/none/such", Optional: true, Why: "hint ~/x"},
		policy.FS{Kind: policy.Socket, Source: "/none/socket", Dest: "/none/socket", Optional: true, Why: "sockets"})
	_, result, err := Foreground(req, backend.Options{})
	require.NoError(t, err)
	notes := slices.DeleteFunc(result.Receipt.Notes, func(n plan.Note) bool { return n.Feature == plan.DefaultLimits }) // as the host has cgroups
	if !probe.Quick().Can(facts.Landlock) {
		require.NotEmpty(t, notes)
		assert.Equal(t, string(facts.Landlock), notes[0].Feature)
		notes = notes[1:]
	}
	require.Len(t, notes, 2)
	assert.Equal(t, "fs: /none/such does not exist and is left out (hint ~/x)", notes[0].String())
	assert.Equal(t, "sockets: /none/socket does not exist and is left out (start what listens there first, or grant its directory)", notes[1].String())
}

func TestFailureOfAPlanNamesTheStep(t *testing.T) {
	req, _ := request(t, "true")
	req.Policy.FS = append(req.Policy.FS, policy.FS{Kind: policy.Bind, Source: "/none/such", Dest: "/none/such"})
	_, result, err := Foreground(req, backend.Options{})
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "mount", e.Stage)
	assert.NotEmpty(t, e.Hint)
	assert.Equal(t, Setup, result.Verdict)
	assert.Equal(t, CodeFailed, result.Code)
}

func TestAWrongPolicyIsRefusedWithoutAStep(t *testing.T) {
	req, _ := request(t, "true")
	req.Policy.Dir = "relative"
	_, _, err := Foreground(req, backend.Options{})
	result := Failure(err)
	assert.Equal(t, Refused, result.Verdict)
	assert.Empty(t, result.Step)
}

// TestResultsTellEndingsApart maps endings to verdicts and codes: no two alike (G2, M11).
func TestResultsTellEndingsApart(t *testing.T) {
	exit := func(n int) unix.WaitStatus { return unix.WaitStatus(n << 8) }
	p := &plan.Plan{Backend: "native"}
	for _, tt := range []struct {
		name    string
		result  Result
		verdict Verdict
		code    int
	}{
		{"success", ended(p, backend.Outcome{Status: exit(0)}), OK, 0},
		{"status 1", ended(p, backend.Outcome{Status: exit(1)}), Exit, 1},
		{"status 137", ended(p, backend.Outcome{Status: exit(137)}), Exit, 137},
		{"SIGKILL", ended(p, backend.Outcome{Status: 9}), Signal, 137},
		{"SIGXCPU", ended(p, backend.Outcome{Status: unix.WaitStatus(unix.SIGXCPU)}), CPU, 128 + int(unix.SIGXCPU)},
		{"SIGXFSZ", ended(p, backend.Outcome{Status: unix.WaitStatus(unix.SIGXFSZ)}), FileSize, 128 + int(unix.SIGXFSZ)},
		{"time up", ended(p, backend.Outcome{Status: 15, TimedOut: true}), Timeout, 124},
		{"interrupted", ended(p, backend.Outcome{Status: 9, Killed: unix.SIGTERM}), Interrupted, 143},
		{"not found", Failure(&Error{Stage: "exec", Err: ErrNotFound}), NotFound, 127},
		{"not executable", Failure(&Error{Stage: "exec", Err: ErrNotExecutable}), NotExecutable, 126},
		{"set-up", Failure(&Error{Stage: "mount", Err: unix.EPERM}), Setup, 125},
		{"policy", Failure(errors.New("x")), Refused, 125},
	} {
		assert.Equal(t, tt.verdict, tt.result.Verdict, tt.name)
		assert.Equal(t, tt.code, tt.result.Code, tt.name)
	}
}

func TestPlansForOtherFactsCanBePreviewed(t *testing.T) {
	req, _ := request(t, "true")
	f := probe.Quick()
	for _, name := range []facts.Name{facts.MountAPI, facts.Openat2, facts.CloseR} {
		f = f.With(name, facts.Answer{State: facts.No})
	}
	p, err := plan.Compile(req, f)
	require.NoError(t, err)
	l, err := backend.Preview(p)
	require.NoError(t, err)
	assert.NotContains(t, l.Text(), "openat2(")
	assert.NotContains(t, l.Text(), "move_mount(")
	result, err := RunPlan(p, backend.Options{})
	require.NoError(t, err, "and it runs")
	assert.Equal(t, OK, result.Verdict)
}

// TestInheritedDescriptorsWithoutCloseRange: on kernels before 5.9 what is open is closed one by one.
func TestInheritedDescriptorsWithoutCloseRange(t *testing.T) {
	leak, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // not close-on-exec
	require.NoError(t, err)
	defer unix.Close(leak)
	for _, has := range []facts.State{facts.Yes, facts.No} {
		req, dir := request(t, "sh", "-c", "ls /proc/self/fd >open")
		f := probe.Quick()
		if has == facts.No {
			f = f.With(facts.CloseR, facts.Answer{State: facts.No})
		}
		p, err := plan.Compile(req, f)
		require.NoError(t, err)
		result, err := RunPlan(p, backend.Options{})
		require.NoError(t, err)
		require.Equal(t, OK, result.Verdict)
		open, err := os.ReadFile(filepath.Join(dir, "open"))
		require.NoError(t, err)
		assert.Equal(t, "0\n1\n2\n3\n", string(open), "3 is ls's own; close_range: %v", has)
	}
}
