package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// deathSignal is a command that prints its death signal. The first thread has it, on which Go runs init.
const deathSignal = "death-signal"

func init() {
	if filepath.Base(os.Args[0]) == deathSignal {
		var sig int32
		err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0)
		fmt.Println(sig, err)
		os.Exit(0)
	}
}

// TestTheSetUpKeepsItsDeathSignal: a command that no process of bwrap's waits for inside has the signal of the set-up, whatever has changed credentials
// since it was asked for.
func TestTheSetUpKeepsItsDeathSignal(t *testing.T) {
	needSandbox(t)
	owner := exec.Command("sleep", "1000")
	size, inside := 1, 1 // not 0, which loses its capabilities when it changes to another
	lines := []string{"", "--unshare-user", "--unshare-user --uid 5 --gid 6", "--unshare-user --disable-userns", "--unshare-user --uid 5 --disable-userns",
		"--unshare-pid --as-pid-1", "--unshare-all --as-pid-1", "--userns 3", "--unshare-user --cap-drop ALL", "--unshare-user --cap-add ALL"}
	if os.Geteuid() == 0 { // who can map more ids than one, so that there is one to change to: that clears the signal
		size = 10
		lines = append(lines, "--userns 3 --uid 5", "--userns 3 --uid 5 --gid 6", "--userns 3 --uid 5 --unshare-pid --as-pid-1")
	}
	owner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Geteuid(), Size: size}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getegid(), Size: size}}}
	require.NoError(t, owner.Start())
	defer func() { _ = owner.Process.Kill(); _ = owner.Wait() }()
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", owner.Process.Pid))
	require.NoError(t, err)
	defer users.Close()
	for _, options := range lines {
		for first, want := range map[string]string{"--die-with-parent": "9 <nil>\n", "--new-session": "0 <nil>\n"} {
			cmd := exec.Command("bwrap", strings.Fields(first+" --ro-bind / / --dev /dev "+options+" "+deathSignal)...)
			cmd.ExtraFiles = []*os.File{users}
			out, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s %s", first, options)
			assert.Equal(t, want, string(out), "%s %s", first, options)
		}
	}
}
