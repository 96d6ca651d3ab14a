package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// installBwrap makes the symlink by which this program is called as bubblewrap.
func (a *app) installBwrap(args []string) int {
	fs := newFlags("install-bwrap")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if fs.NArg() != 1 || fs.Arg(0) == "" {
		return a.fail(errors.New("install-bwrap takes one directory, as in nsrun install-bwrap ~/.local/bin"))
	}
	self, err := os.Executable()
	if err != nil {
		return a.fail(err)
	}
	link := filepath.Join(fs.Arg(0), "bwrap")
	err = os.Symlink(self, link)
	if target, readErr := os.Readlink(link); errors.Is(err, os.ErrExist) && readErr == nil && target == self {
		err = nil // done before
	}
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%s is there already; remove it, or choose another directory", link)
	}
	if info, statErr := os.Stat(fs.Arg(0)); err != nil && (statErr != nil || !info.IsDir()) {
		err = fmt.Errorf("%s is not a directory that is there; make it first, with mkdir -p", fs.Arg(0))
	}
	if err != nil {
		return a.fail(err)
	}
	return a.print(link + " -> " + self + "\n")
}
