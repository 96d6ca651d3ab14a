package nsrun_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

var ctx = context.Background()

func workspace() (string, func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

// must keeps the examples short.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	dir, remove := workspace()
	defer remove()
	policy := must(nsrun.NewPolicy().WorkspaceAt(dir, "/workspace").Timeout(time.Minute).Degrade().Build())

	out, err := nsrun.CommandContext(ctx, policy, "sh", "-c", "pwd; echo made >file; exit 3").Output()
	fmt.Print(string(out))
	fmt.Println(err)
	fmt.Print(string(must(os.ReadFile(filepath.Join(dir, "file")))))
	// Output:
	// /workspace
	// exit status 3
	// made
}

// Init is the first call of main, and of TestMain, as in the test of this example. Without it nothing is started.
func ExampleInit() {
	main := func() {
		nsrun.Init()
		defer nsrun.Shutdown() // leaves no zombie to init

		err := nsrun.CommandContext(ctx, must(nsrun.NewPolicy().Degrade().Build()), "true").Run()
		fmt.Println(err, errors.Is(err, nsrun.ErrNoInit))
	}
	main()
	// Output: <nil> false
}

func ExampleBuilder() {
	limited := func(b *nsrun.Builder) *nsrun.Builder {
		return b.Limit("open_files", 64).Timeout(time.Minute).Degrade()
	}
	var p nsrun.Policy = must(limited(nsrun.NewPolicy()).Build())
	fmt.Print(string(must(nsrun.CommandContext(ctx, p, "sh", "-c", "ulimit -n").Output())))
	// Output: 64
}

// A policy that was read from somewhere is plain data.
func ExampleFromPolicy() {
	_, err := nsrun.FromPolicy(policy.Policy{Network: "moon"}, policy.Operator{})
	fmt.Println(err)
	// Output: network: "moon" is unknown; use none, host or allow
}

func ExampleCommandContext() {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	policy := must(nsrun.NewPolicy().Degrade().Build())
	err := nsrun.CommandContext(ctx, policy, "sleep", "60").Run()
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// The fields are those of os/exec.
func ExampleCmd() {
	policy := must(nsrun.NewPolicy().Degrade().Build())
	var cmd *nsrun.Cmd = nsrun.CommandContext(ctx, policy, "sh", "-c", "cat; echo $GREETING")
	cmd.Stdin = strings.NewReader("hello\n")
	cmd.Stdout = os.Stdout
	cmd.Env = []string{"GREETING=good bye"}
	fmt.Println(cmd.Run())
	// Output:
	// hello
	// good bye
	// <nil>
}

func ExampleCmd_StdinPipe() {
	session := must(nsrun.Open(ctx, must(nsrun.NewPolicy().Degrade().Build())))
	defer session.Close()

	server := session.Command(ctx, "sh", "-c", "while read n; do echo $((n * n)); done")
	server.Timeout = -1 // it goes on for as long as it is needed
	questions, answers := must(server.StdinPipe()), bufio.NewReader(must(server.StdoutPipe()))
	if err := server.Start(); err != nil {
		panic(err)
	}
	for n := range 3 {
		fmt.Fprintln(questions, n+7)
		fmt.Print(must(answers.ReadString('\n')))
	}
	questions.Close()
	fmt.Println(server.Wait())
	// Output:
	// 49
	// 64
	// 81
	// <nil>
}

func ExampleProcess() {
	cmd := nsrun.CommandContext(ctx, must(nsrun.NewPolicy().Degrade().Build()), "sleep", "60")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	var process *nsrun.Process = cmd.Process
	if err := process.Signal(syscall.SIGTERM); err != nil {
		panic(err)
	}
	fmt.Println(cmd.Wait())
	// Output: signal: terminated
}

func ExampleSize() {
	cmd := nsrun.CommandContext(ctx, must(nsrun.NewPolicy().Degrade().Build()), "sh", "-c", "test -t 1 && echo a terminal")
	cmd.Terminal = &nsrun.Size{Rows: 24, Cols: 80}
	fmt.Print(strings.ReplaceAll(string(must(cmd.Output())), "\r", ""))
	// Output: a terminal
}

// What a policy does not allow, a program that is not there, and a command that failed are errors of different types.
func ExampleExitError() {
	session := must(nsrun.Open(ctx, must(nsrun.NewPolicy().Timeout(time.Second).Degrade().Build())))
	defer session.Close()

	for _, argv := range [][]string{{"false"}, {"no-such-program"}, {"/etc/passwd"}, {"true", "\x00"}, {"sleep", "60"}} {
		err := session.Command(ctx, argv[0], argv[1:]...).Run()
		var exit *nsrun.ExitError
		var refused *nsrun.RefusedError
		var failed *nsrun.Error
		switch {
		case errors.As(err, &exit):
			fmt.Println("it ran:", exit, exit.Result.Verdict == result.Timeout)
		case errors.As(err, &refused):
			fmt.Println("refused:", refused)
		case errors.Is(err, nsrun.ErrNotFound):
			fmt.Println("not found:", argv[0], errors.Is(err, exec.ErrNotFound))
		case errors.Is(err, nsrun.ErrNotExecutable):
			fmt.Println("not executable:", argv[0])
		case errors.As(err, &failed):
			fmt.Println("set-up:", failed)
		}
	}
	// Output:
	// it ran: exit status 1 false
	// not found: no-such-program true
	// not executable: /etc/passwd
	// refused: args: argument 1 holds a NUL byte
	// it ran: timeout: signal: terminated true
}

// A backend that cannot do what the policy asks for is an error before anything runs.
func ExamplePolicyCompatibilityError() {
	p := must(nsrun.NewPolicy().Backend(policy.BackendNone).Require("network").Build())
	err := nsrun.CommandContext(ctx, p, "true").Run()
	var lacks *nsrun.PolicyCompatibilityError
	fmt.Println(errors.As(err, &lacks))
	// Output: true
}

// Commands of a session share its files, and /tmp.
func ExampleSession() {
	var session *nsrun.Session = must(nsrun.Open(ctx, must(nsrun.NewPolicy().Degrade().Build())))
	fmt.Println(session.Command(ctx, "sh", "-c", "echo kept >/tmp/x").Run())
	fmt.Print(string(must(session.Command(ctx, "cat", "/tmp/x").Output())))
	session.Close()
	fmt.Println(errors.Is(session.Command(ctx, "true").Run(), nsrun.ErrClosed))
	// Output:
	// <nil>
	// kept
	// true
}

// What no rule allows is asked about, while the connection waits. It takes nsrun-helper beside the program.
func ExampleSession_Ask() {
	session := must(nsrun.Open(ctx, must(nsrun.NewPolicy().Allow("registry.example.com:443").Build())))
	defer session.Close()
	session.OnRefused(func(d result.Denial) { fmt.Println("refused:", d.Path, d.Reason) })
	err := session.Ask(30*time.Second, func(q nsrun.Question) nsrun.Answer {
		if strings.HasSuffix(q.Name, ".example.com") {
			return nsrun.Answer{Allow: true, Session: true}
		}
		return nsrun.Answer{Reason: "it is not ours"}
	})
	fmt.Println(err, session.Command(ctx, "curl", "-sS", "https://mirror.example.com").Run(), session.Allow())
}

func ExampleSession_ResolvePath() {
	dir, remove := workspace()
	defer remove()
	session := must(nsrun.Open(ctx, must(nsrun.NewPolicy().WorkspaceAt(dir, "/workspace").Degrade().Build())))
	defer session.Close()
	if err := session.Command(ctx, "sh", "-c", "echo result >report; ln -s /etc/passwd trap").Run(); err != nil {
		panic(err)
	}

	var report *nsrun.HostPath = must(session.ResolvePath("/workspace/report", nsrun.ForReading))
	fmt.Println(strings.TrimPrefix(report.Path, dir))
	for _, access := range []nsrun.Access{nsrun.ForReading, nsrun.ForWriting} {
		_, err := session.ResolvePath("trap", access)
		var refused *nsrun.RefusedError
		fmt.Println(errors.As(err, &refused))
	}
	// Output:
	// /report
	// true
	// true
}

func ExamplePool() {
	var pool *nsrun.Pool = must(nsrun.NewPool(must(nsrun.NewPolicy().Degrade().Build()), 2))
	defer pool.Close()
	for range 3 {
		session := must(pool.Get(ctx))
		fmt.Print(string(must(session.Command(ctx, "sh", "-c", "echo /tmp/*; echo >/tmp/x").Output())))
		session.Close()
	}
	// Output:
	// /tmp/*
	// /tmp/*
	// /tmp/*
}
