package main

import (
	"errors"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/result"
)

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
