package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prepare makes the directory of a run.
func (s *spec) prepare() error {
	syscall.Umask(0)
	defer syscall.Umask(0o022)
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return err
	}
	for _, line := range s.Host {
		if err := makeLine(s.Dir, line); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// makeLine makes one thing: "d PATH MODE", "f PATH CONTENT", "l PATH TARGET", "p PATH", "s PATH", "m PATH MODE" (chmod), and
// "x PATH CONTENT", an executable file.
func makeLine(dir, line string) error {
	f := strings.SplitN(line, " ", 3)
	for len(f) < 3 {
		f = append(f, "")
	}
	path := filepath.Join(dir, f[1])
	mode, _ := strconv.ParseUint(f[2], 8, 32)
	switch f[0] {
	case "d":
		if f[2] == "" {
			mode = 0o755
		}
		return os.MkdirAll(path, os.FileMode(mode))
	case "f":
		return os.WriteFile(path, []byte(f[2]), 0o644)
	case "x":
		return os.WriteFile(path, []byte(f[2]), 0o755)
	case "l":
		return os.Symlink(f[2], path)
	case "p":
		return unix.Mkfifo(path, 0o644)
	case "m":
		return unix.Chmod(path, uint32(mode))
	case "s":
		return makeSocket(path)
	}
	return fmt.Errorf("no such kind")
}

func makeSocket(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
}

// space opens a namespace of a helper: ns:user is that of the first, ns:pid of one that it started, ns2:user is a namespace inside the
// first.
func (d *desk) space(kind, which string) (*os.File, error) {
	if len(d.owners) == 0 {
		if err := d.startOwners(); err != nil {
			return nil, err
		}
	}
	pid := d.owners[0]
	switch {
	case kind == "ns2":
		pid = d.owners[1]
	case which == "pid":
		pid = d.owners[2]
	}
	return openFlags(fmt.Sprintf("/proc/%d/ns/%s", pid, which), unix.O_RDONLY)
}

// startOwners starts a helper with a user namespace of its own, which starts the two others.
func (d *desk) startOwners() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "own", self)
	cmd.SysProcAttr = ownSpaces(syscall.CLONE_NEWUSER)
	cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // to make a pid namespace
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.owners = append(d.owners, cmd.Process.Pid)
	var user, pid int
	if _, err := fmt.Fscan(bufio.NewReader(out), &user, &pid); err != nil {
		return err
	}
	d.owners = append(d.owners, user, pid)
	return nil
}

// ownSpaces maps the user to itself in a new user namespace.
func ownSpaces(flags uintptr) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&syscall.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// own owns its namespaces until it is killed. The first helper tells the numbers of those that it starts.
func own(words []string) error {
	runtime.LockOSThread() // the death of this thread would be taken for that of the parent
	if len(words) > 0 {
		for _, flags := range []uintptr{syscall.CLONE_NEWUSER, syscall.CLONE_NEWPID} {
			cmd := exec.Command(words[0], "own")
			cmd.SysProcAttr = ownSpaces(flags)
			if err := cmd.Start(); err != nil {
				return err
			}
			fmt.Println(cmd.Process.Pid)
		}
	}
	time.Sleep(30 * time.Second)
	return nil
}
