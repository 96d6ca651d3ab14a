// Package network makes a program that imports it the network helper of its own sandboxes, for policies with an allow-list (Builder.Allow of package nsrun).
// Without it they take the program nsrun-helper beside the program's own file.
//
//	import _ "github.com/nsrun/nsrun/nsrun/network"
//
// For each sandbox the program's binary is started once more; [nsrun.Init], the first call of main, does not return there. What the program's packages do
// when they are initialised is done there too, before the process confines itself to connecting, and to reading the files that resolving a name takes. A
// goroutine that an initialiser has left finds its system calls refused then.
//
// It is a package of its own because it links Go's network packages, whose initialisers each start of the program runs then (1 ms at most).
//
// A program that links a C library, as package net makes each one do that is built without CGO_ENABLED=0, has a helper that is confined by a filter of
// system calls alone: it starts no program and writes no file, but it can read what its user can, and keeps root's capabilities. Build without cgo, or put
// nsrun-helper beside the program and do not import this package.
//
// It does not protect the host from what the rules allow: see package netrule.
//
// [nsrun.Init]: https://pkg.go.dev/github.com/nsrun/nsrun/nsrun#Init
package network

import (
	"github.com/nsrun/nsrun/internal/nethelper"
	"github.com/nsrun/nsrun/internal/runner"
)

func init() { runner.OwnHelper(func() { nethelper.Main("library") }) }
