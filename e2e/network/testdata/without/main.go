// Without becomes a command for which the kernel seems to have no nf_tables, or no IPv6: a filter of system calls refuses the sockets.
//
//	without nftables|ipv6 COMMAND ARG...
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
	fmt.Fprintln(os.Stderr, "without:", become(missing[os.Args[1]], os.Args[2:]))
	os.Exit(1)
}

// missing are the sockets that are refused, with the answers of a kernel without them: socket(2).
var missing = map[string]seccomp.Case{
	"nftables": {If: []seccomp.Cond{{Arg: 0, In: []uint32{unix.AF_NETLINK}}, {Arg: 2, In: []uint32{unix.NETLINK_NETFILTER}}}, Action: seccomp.Errno(uint16(unix.EPROTONOSUPPORT))},
	"ipv6":     {If: []seccomp.Cond{{Arg: 0, In: []uint32{unix.AF_INET6}}}, Action: seccomp.Errno(uint16(unix.EAFNOSUPPORT))},
}

// become returns only if it fails.
func become(refused seccomp.Case, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	arch, err := seccomp.Host()
	if err != nil {
		return err
	}
	filter, err := seccomp.Compile(seccomp.Profile{Name: "without", Default: seccomp.Allow, Rules: []seccomp.Rule{
		{Calls: "socket", Action: seccomp.Allow, Cases: []seccomp.Case{refused}},
	}}, arch)
	if err != nil {
		return err
	}
	if err := seccomp.Apply(filter); err != nil {
		return err
	}
	return unix.Exec(path, argv, os.Environ())
}
