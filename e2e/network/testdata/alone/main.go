// Alone runs a command by package nsrun, with an allow-list, and is its own network helper:
//
//	alone WORKSPACE RULE COMMAND ARG...
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/nsrun"
	_ "github.com/nsrun/nsrun/nsrun/network"
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "alone:", err)
	}
}
