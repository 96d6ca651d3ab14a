// Library runs commands by package nsrun, with an allow-list: the same command twice, each by itself, in one session, or in two of a pool.
//
//	library run|session|pool|ask WORKSPACE RULE COMMAND ARG...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/result"
)

func main() {
	nsrun.Init()
	defer nsrun.Shutdown()
	err := run(context.Background(), os.Args[1])
	var e *nsrun.Error
	if errors.As(err, &e) {
		fmt.Fprintln(os.Stderr, "library:", e, e.Hint)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
	}
}

func run(ctx context.Context, mode string) error {
	policy, err := nsrun.NewPolicy().Workspace(os.Args[2]).Allow(os.Args[3]).Build()
	if err != nil {
		return err
	}
	argv := os.Args[4:]
	switch mode {
	case "run":
		return errors.Join(try(nsrun.CommandContext(ctx, policy, argv[0], argv[1:]...)), try(nsrun.CommandContext(ctx, policy, argv[0], argv[1:]...)))
	case "session":
		s, err := nsrun.Open(ctx, policy)
		if err != nil {
			return err
		}
		return errors.Join(try(s.Command(ctx, argv[0], argv[1:]...)), try(s.Command(ctx, argv[0], argv[1:]...)), s.Close())
	case "ask":
		return ask(ctx, policy, argv)
	}
	pool, err := nsrun.NewPool(policy, 2)
	for range 2 {
		var s *nsrun.Session
		if err == nil {
			s, err = pool.Get(ctx)
		}
		if err == nil {
			err = errors.Join(try(s.Command(ctx, argv[0], argv[1:]...)), s.Close())
		}
	}
	return errors.Join(err, pool.Close())
}

// ask runs the command in a session that allows what it is asked about the first time, and in the same with no rules.
func ask(ctx context.Context, policy nsrun.Policy, argv []string) error {
	s, err := nsrun.Open(ctx, policy)
	if err != nil {
		return err
	}
	asked := 0
	s.OnRefused(func(d result.Denial) { fmt.Println("heard:", d.Path) })
	err = s.Ask(10*time.Second, func(q nsrun.Question) nsrun.Answer {
		asked++
		fmt.Println("asked:", q.Name, q.Port)
		return nsrun.Answer{Allow: asked == 1, Session: true, Reason: "asked twice"}
	})
	first := try(s.Command(ctx, argv[0], argv[1:]...))
	fmt.Println("rules:", s.Allow())
	return errors.Join(err, first, s.SetAllow(), try(s.Command(ctx, argv[0], argv[1:]...)), s.Close())
}

// try runs a command, and prints what the network refused. That the command fails is no error.
func try(cmd *nsrun.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *nsrun.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	for _, d := range cmd.Result.Denials {
		fmt.Printf("refused: %s, %d\n", d.Path, d.Count)
	}
	return nil
}
