package network

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// built is what TestMain makes: a directory that every user can enter, and in it nsrun with its helper.
var built struct{ room, nsrun string }

// inside says that this process is in the namespaces of the test already.
const inside = "NSRUN_TEST_INTERNET"

// TestMain runs the tests in a mount and a network namespace of their own: of a new user namespace, for an ordinary user, in which that user is root.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(testenv.Main(again))
	}
	os.Exit(testenv.Main(func() int { return run(m) }))
}

// again is this program in the namespaces.
func again() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	runtime.LockOSThread()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "e2e/network:", err)
	return 1
}

func run(m *testing.M) int {
	dir, err := testenv.MakeDir("nsrun-network-")
	if err == nil {
		defer os.RemoveAll(dir)
		built.room, built.nsrun = dir, filepath.Join(dir, "nsrun")
		err = errors.Join(testenv.Build(built.nsrun, "../../cmd/nsrun"), testenv.Build(filepath.Join(dir, "nsrun-helper"), "../../cmd/nsrun-helper"),
			testenv.Build(filepath.Join(dir, "shared", "goclient"), "./testdata/goclient"), testenv.Build(filepath.Join(dir, "shared", "h3client"), "./testdata/h3client"),
			testenv.Build(filepath.Join(dir, "without"), "./testdata/without"),
			testenv.Build(filepath.Join(dir, "library"), "./testdata/library"), testenv.Build(filepath.Join(dir, "alone", "alone"), "./testdata/alone"))
	}
	if err == nil {
		err = errors.Join(makeInternet(dir), serve(filepath.Join(dir, "www"), filepath.Join(dir, "shared", "ca.pem")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/network:", err)
		return 1
	}
	return m.Run()
}
