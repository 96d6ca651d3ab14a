// Library runs a command by package nsrun, with an allow-list:
//
//	library WORKSPACE RULE COMMAND ARG...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/nsrun"
)

func main() {
	nsrun.Init()
	defer nsrun.Shutdown()
	policy, err := nsrun.NewPolicy().Workspace(os.Args[1]).Allow(os.Args[2]).Build()
	if err == nil {
		cmd := nsrun.CommandContext(context.Background(), policy, os.Args[3], os.Args[4:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = cmd.Run()
	}
	var e *nsrun.Error
	if errors.As(err, &e) {
		fmt.Fprintln(os.Stderr, "library:", e, e.Hint)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
	}
}
