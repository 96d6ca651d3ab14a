// Inside says what a command finds around itself, and tries what a sandbox should refuse. With arguments it then becomes what they name.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	found := map[string]string{}
	try := func(name string, err error) {
		found[name] = "done"
		if err != nil {
			found[name] = err.Error()
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff", "CapPrm", "CapAmb":
			found[name] = strings.TrimSpace(value)
		}
	}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		found["ns_"+ns], _ = os.Readlink("/proc/self/ns/" + ns)
	}
	pids, _ := filepath.Glob("/proc/[0-9]*")
	found["processes"] = fmt.Sprint(len(pids))
	_, err := os.ReadFile("/secret/key")
	try("read_outside", err)
	_, err = os.Stat("/secret/key")
	try("see_outside", err)
	try("write_outside", os.WriteFile("/secret/new", nil, 0o600))
	try("write_granted", os.WriteFile("new", nil, 0o600))
	try("write_tmp", os.WriteFile("/tmp/new", nil, 0o600))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	try("loopback", err)
	try("unshare", unix.Unshare(unix.CLONE_NEWUTS))
	_, err = unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	try("vsock", err)
	try("signal", unix.Kill(1, 0))
	_ = json.NewEncoder(os.Stdout).Encode(found)
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, unix.Exec(os.Args[1], os.Args[1:], os.Environ()))
		os.Exit(1)
	}
}
