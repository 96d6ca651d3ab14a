// Nonetfilter becomes a command for which the kernel has no nf_tables: a filter of system calls refuses the sockets that rules are made by.
//
//	nonetfilter COMMAND ARG...
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // the filter is this thread's, which becomes the command
	fmt.Fprintln(os.Stderr, "nonetfilter:", become(os.Args[1:]))
	os.Exit(1)
}

// become returns only if it fails.
func become(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	arch, err := seccomp.Host()
	if err != nil {
		return err
	}
	filter, err := seccomp.Compile(seccomp.Profile{Name: "nonetfilter", Default: seccomp.Allow, Rules: []seccomp.Rule{
		{Calls: "socket", Action: seccomp.Allow, Cases: []seccomp.Case{{If: []seccomp.Cond{{Arg: 0, In: []uint32{unix.AF_NETLINK}}, {Arg: 2, In: []uint32{unix.NETLINK_NETFILTER}}},
			Action: seccomp.Errno(uint16(unix.EPROTONOSUPPORT))}}}, // socket(2): what a kernel without the protocol answers
	}}, arch)
	if err != nil {
		return err
	}
	if err := seccomp.Apply(filter); err != nil {
		return err
	}
	return unix.Exec(path, argv, os.Environ())
}
