package nsrun_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun"
)

// The test binary calls Init in TestMain, as a program does in main.

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
	session := must(nsrun.Open(context.Background(), policy))
	defer session.Close()

	result := must(session.Exec(context.Background(), []string{"sh", "-c", "pwd; echo made >file; exit 3"}, nil))
	fmt.Print(result.Verdict, " ", result.Code, " ", string(result.Stdout))
	fmt.Print(string(must(os.ReadFile(filepath.Join(dir, "file")))))
	// Output:
	// exit 3 /workspace
	// made
}

func ExampleRun() {
	policy := must(nsrun.NewPolicy().Degrade().Build())
	result := must(nsrun.Run(context.Background(), policy, []string{"cat"}, &nsrun.ExecOptions{Stdin: strings.NewReader("hello\n")}))
	fmt.Print(string(result.Stdout))
	// Output: hello
}

func ExampleSession_Exec_outcomes() {
	policy := must(nsrun.NewPolicy().Timeout(3 * time.Second).Degrade().Build())
	session := must(nsrun.Open(context.Background(), policy))
	defer session.Close()

	for _, argv := range [][]string{{"false"}, {"no-such-program"}, {"true", "\x00"}, {"sleep", "60"}} {
		result, err := session.Exec(context.Background(), argv, nil)
		var refused *nsrun.RefusedError
		switch {
		case errors.As(err, &refused):
			fmt.Println("refused:", refused)
		case errors.Is(err, nsrun.ErrNotFound):
			fmt.Println("not installed:", argv[0])
		case err != nil:
			fmt.Println("set-up:", err)
		default:
			fmt.Println("it ran:", result.Verdict, result.Code)
		}
	}
	// Output:
	// it ran: exit 1
	// not installed: no-such-program
	// refused: args: argument 1 holds a NUL byte
	// it ran: timeout 124
}

func ExampleSession_StartProcess() {
	policy := must(nsrun.NewPolicy().Degrade().Build())
	session := must(nsrun.Open(context.Background(), policy))
	defer session.Close()

	server := must(session.StartProcess(context.Background(), nsrun.StartRequest{Args: nsrun.Shell("while read n; do echo $((n * n)); done")}))
	answers := bufio.NewReader(server.Stdout)
	for n := range 3 {
		fmt.Fprintln(server.Stdin, n+7)
		fmt.Print(must(answers.ReadString('\n')))
	}
	server.Stdin.Close()
	fmt.Println(must(server.Wait()).Verdict)
	// Output:
	// 49
	// 64
	// 81
	// ok
}

func ExampleSession_ResolvePath() {
	dir, remove := workspace()
	defer remove()
	policy := must(nsrun.NewPolicy().WorkspaceAt(dir, "/workspace").Degrade().Build())
	session := must(nsrun.Open(context.Background(), policy))
	defer session.Close()
	must(session.Exec(context.Background(), nsrun.Shell("echo result >report; ln -s /etc/passwd trap"), nil))

	report := must(session.ResolvePath("/workspace/report", nsrun.ForReading))
	fmt.Println(strings.TrimPrefix(report.Path, dir))
	_, err := session.ResolvePath("trap", nsrun.ForReading)
	var refused *nsrun.RefusedError
	fmt.Println(errors.As(err, &refused))
	// Output:
	// /report
	// true
}

func ExamplePool() {
	pool := must(nsrun.NewPool(must(nsrun.NewPolicy().Degrade().Build()), 2))
	defer pool.Close()
	for range 3 {
		session := must(pool.Get(context.Background()))
		fmt.Print(string(must(session.Exec(context.Background(), nsrun.Shell("echo /tmp/*; echo >/tmp/x"), nil)).Stdout))
		session.Close()
	}
	// Output:
	// /tmp/*
	// /tmp/*
	// /tmp/*
}
