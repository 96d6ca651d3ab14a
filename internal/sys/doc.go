// Package sys runs lists of system calls, in place or in a forked child.
//
// A Linux sandbox is a few dozen system calls in the right order. This package makes that order a value: a [Program] is a flat list of
// [Call]s with every string and struct marshalled beforehand. It prints like strace, and a test can make call i fail with errno e.
//
//	var p sys.Program
//	p.At(sys.Step{Stage: "root", Op: "chdir", Path: "/"}) // names the calls that follow, in errors
//	p.Add(unix.SYS_CHDIR, sys.Str("/"))
//	if err := p.Run(); err != nil { ... } // *fault.Error: the step of the call that failed
//
// A loop runs the list. It stops at the first call that fails, unless the list says that this errno is tolerated and how many calls to skip
// then. The child after fork makes no allocation, takes no lock and never enters the Go runtime, which is the contract of
// syscall.forkAndExecInChild in the Go tree. With one exception the list is complete before it runs: [Program.Serve]
// starts commands by further lists, which come over a socket.
//
// Only this package and sys/entry use unsafe and linkname. No other package runs code in a forked child.
//
// The package does not know the purpose of any call, and protects against nothing by itself. The order of the calls is the whole
// security argument, and the code that writes the Program is responsible for it.
package sys
