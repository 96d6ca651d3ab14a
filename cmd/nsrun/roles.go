package main

import (
	"errors"
	"strconv"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/result"
)

// execStages is not for people: it is what this binary does inside of a bubblewrap.
func (a *app) execStages(args []string) int {
	var fds []int
	for _, word := range args {
		if n, err := strconv.Atoi(word); err == nil && n > 2 {
			fds = append(fds, n)
		}
	}
	if len(fds) != 3 {
		return a.fail(errors.New("exec-stages is for nsrun itself"))
	}
	if err := backend.ExecStages(fds[0], fds[1], fds[2]); err != nil {
		return a.fail(err)
	}
	return result.CodeFailed
}

// containerInit is not for people: this binary does it as pid 1 of a container.
func (a *app) containerInit(args []string) int {
	if len(args) != 0 {
		return a.fail(errors.New("container-init is for nsrun itself"))
	}
	if err := backend.ContainerInit(); err != nil {
		return a.fail(err)
	}
	return result.CodeFailed
}
