package main

import (
	"errors"

	"github.com/nsrun/nsrun/nsrun"
)

// containerInit is not for people: it is what this binary does as pid 1 of a container.
func (a *app) containerInit(args []string) int {
	if len(args) != 0 {
		return a.fail(errors.New("inside is for nsrun itself"))
	}
	if err := nsrun.ContainerInit(); err != nil {
		return a.fail(err)
	}
	return nsrun.CodeFailed
}
