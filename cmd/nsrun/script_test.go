package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain makes the test binary be nsrun when it is called by one of its names: scripts and tests run it from PATH. The third is what
// it has inside of a real bubblewrap.
func TestMain(m *testing.M) {
	runner.Init()
	testscript.Main(isolated{m}, map[string]func(){"nsrun": main, "bwrap": main, ".nsrun": main, deathSignal: func() {}})
}

// isolated runs the tests in namespaces of their own.
type isolated struct{ m *testing.M }

func (i isolated) Run() int { return testenv.Main(i.m.Run) }

// TestScripts runs testdata/script. Beside the commands of testscript they have:
//
//	code N CMD ARG...   run CMD, which must end with exit code N
//	late CMD ARG...     run CMD, which must end with exit code 124 and print the line "begun". The word TIME in ARG is a time, which is
//	                    doubled until it is long enough for CMD to begin
//	lone CMD ARG...     the same for 125, and the error must be at most two lines on stderr, with nothing on stdout
//	need WHAT...        skip without exec:PROGRAM or feature:NAME; fail where CI is set
//	listen VAR          listen on a loopback port for as long as the script runs, and set VAR to it
//	sparse FILE SIZE    make a file of that size that takes no space
//	fifo FILE           make a FIFO
//	binary FILE BYTE... write bytes, given in hexadecimal
//	envfile FILE TEXT   write a line, in which variables are expanded as in each command
func TestScripts(t *testing.T) {
	needSandbox(t)
	exe, err := exec.LookPath("nsrun")
	require.NoError(t, err)
	bin := filepath.Dir(exe)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		WorkdirRoot:         t.TempDir(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("TERM", "dumb")
			env.Setenv("XDG_STATE_HOME", os.Getenv("XDG_STATE_HOME")) // HOME is a directory that is not there
			env.Setenv("WHO", who())
			env.Setenv("ESC", "\x1b")
			env.Setenv("LONG", strings.Repeat("a", 300))
			env.Setenv("LATIN", "\xff")                                                           // a word that is not UTF-8
			env.Setenv("TRACE", "import ctypes; exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)") // PTRACE_TRACEME
			env.Setenv("BIN", bin)
			env.Values["t"] = env.T()
			return nil
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitCode, "late": late, "lone": lone, "need": need, "listen": listen, "sparse": sparse, "fifo": fifo, "binary": binary,
			"envfile": envfile, "pipe": pipe,
		},
	})
	nothingLeft(t)
}

// needSandbox skips a test where the default policy cannot be enforced; in CI that is a failure.
func needSandbox(t *testing.T) {
	t.Helper()
	_, err := plan.Compile(plan.Request{Policy: policy.Default(""), Command: []string{"true"}}, probe.Full())
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("CI must be able to run sandboxes: %v", err)
	}
	t.Skipf("no sandbox here: %v", err)
}

func condition(cond string) (bool, error) {
	if cond == "libseccomp" {
		_, err := plan.SeccompJSON([]byte("{}"), runtime.GOARCH)
		return !errors.Is(err, errors.ErrUnsupported), nil
	}
	if cond == "root" {
		return os.Getuid() == 0, nil
	}
	if cond == "disk" { // there is one that is none of a machine's memory
		found, err := filepath.Glob("/sys/block/*/device")
		return len(found) > 0, err
	}
	if name, ok := strings.CutPrefix(cond, "cgroup:"); ok { // a cgroup with that controller can be made, or had in a scope
		known := probe.Quick()
		here := slices.ContainsFunc(known.Groups, func(g facts.Group) bool { return slices.Contains(g.Controllers, name) })
		return here || known.Manager != nil && slices.Contains(known.Manager.Controllers, name), nil
	}
	if name, ok := strings.CutPrefix(cond, "feature:"); ok {
		if _, known := facts.Lookup(facts.Name(name)); !known {
			return false, fmt.Errorf("%s is not a feature", name)
		}
		return probe.Quick().Can(facts.Name(name)), nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

func run(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	}
	ts.Fatalf("%s: %v", args[0], err)
	return -1
}

func expect(ts *testscript.TestScript, want int, args []string) {
	if got := run(ts, args); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	expect(ts, want, args[1:])
}

func late(ts *testscript.TestScript, neg bool, args []string) {
	at := slices.Index(args, "TIME")
	if neg || at < 0 {
		ts.Fatalf("usage: late CMD ARG..., with the word TIME")
	}
	for limit := testenv.Scale(200 * time.Millisecond); limit < testenv.Limit(0); limit *= 2 {
		args[at] = limit.String()
		expect(ts, result.CodeTimeout, args)
		if slices.Contains(strings.Split(ts.ReadFile("stdout"), "\n"), "begun") {
			return
		}
	}
	ts.Fatalf("the command does not begin")
}

func lone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: lone CMD ARG...")
	}
	expect(ts, 125, args)
	out, written := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	lines := strings.Split(strings.TrimSuffix(written, "\n"), "\n")
	if out != "" || len(lines) > 2 || !strings.HasPrefix(lines[0], "nsrun: ") {
		ts.Fatalf("want an error of one or two lines and nothing else")
	}
	for _, word := range []string{"bug:", "panic", "goroutine", "failed to"} {
		if strings.Contains(written, word) {
			ts.Fatalf("the error says %q: %s", word, written)
		}
	}
}

func need(ts *testscript.TestScript, neg bool, args []string) {
	for _, what := range args {
		kind, name, _ := strings.Cut(what, ":")
		var ok bool
		var err error
		if kind == "exec" {
			_, err = exec.LookPath(name)
			ok = err == nil
		} else {
			ok, err = condition(what)
			ts.Check(err)
		}
		if ok != neg {
			continue
		}
		if os.Getenv("CI") != "" {
			ts.Fatalf("CI must have %s", what)
		}
		ts.Value("t").(testscript.T).Skip("needs " + what)
	}
}

func listen(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "reached")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv(args[0], port)
}

func sparse(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), nil, 0o644))
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

func binary(ts *testscript.TestScript, _ bool, args []string) {
	var data []byte
	for _, word := range args[1:] {
		b, err := strconv.ParseUint(word, 16, 8)
		ts.Check(err)
		data = append(data, byte(b))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o644))
}

func envfile(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(args[1]+"\n"), 0o644))
}

func fifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(unix.Mkfifo(ts.MkAbs(args[0]), 0o644))
}

// nothingLeft fails if a process of ours stays: init of each sandbox is this binary, and ends after all others in it.
func nothingLeft(t *testing.T) {
	t.Helper()
	exe, err := exec.LookPath("nsrun")
	require.NoError(t, err)
	end := time.Now().Add(testenv.Limit(0))
	for len(processesOf(exe)) > 0 && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
	}
	require.Empty(t, processesOf(exe), "processes are left behind")
}

func processesOf(exe string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	return slices.DeleteFunc(all, func(dir string) bool {
		is, err := os.Readlink(filepath.Join(dir, "exe"))
		return err != nil || is != exe
	})
}

// who is the caller's name as the sandbox tells it.
func who() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return "user"
}

// pipe runs two commands with a pipe between them: pipe 'nsrun run -- yes' 'head -1'. The output is that of the second.
func pipe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pipe COMMAND COMMAND")
	}
	err := ts.Exec("bash", "-c", strings.ReplaceAll(args[0], "nsrun ", "$BIN/nsrun ")+" | "+args[1])
	ts.Check(err)
}
