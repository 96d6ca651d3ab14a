package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// runStep runs one step to its end, and all that it has started with it.
func runStep(s guest.Step, h guest.Host) error {
	say(guest.Frame{Kind: guest.Begin, Name: s.Name})
	groups, err := groupsFor(s, h)
	if err != nil {
		return err
	}
	attr := &os.ProcAttr{Dir: s.Dir, Env: environ(s), Sys: &syscall.SysProcAttr{
		Setsid: true, Credential: &syscall.Credential{Uid: uint32(s.UID), Gid: uint32(s.UID), Groups: []uint32{}}}}
	printed := make(chan struct{})
	if s.Console {
		attr.Files, attr.Sys.Setctty = []*os.File{line, line, line}, true
		_ = unix.IoctlSetTermios(int(line.Fd()), unix.TCSETS, sane())
		close(printed)
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close()
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		attr.Files = []*os.File{null, w, w}
		go relay(s.Name, r, printed)
		defer r.Close()
		defer w.Close()
	}
	code, err := await(s, attr, groups)
	if err != nil {
		return err
	}
	if !s.Console {
		attr.Files[1].Close()
	}
	if left := leftovers(); len(left) > 0 {
		say(guest.Frame{Kind: guest.Left, Name: s.Name, Data: []byte(strings.Join(left, "\n"))})
	}
	select {
	case <-printed:
	case <-time.After(stepTimeout):
		say(guest.Frame{Kind: guest.Left, Name: s.Name, Data: []byte("something that has its standard output")})
	}
	if !s.Console {
		say(guest.Frame{Kind: guest.Exit, Name: s.Name, Data: []byte(strconv.Itoa(code))})
	}
	return nil
}

// await starts the program in its groups and reaps all that dies until the program has.
func await(s guest.Step, attr *os.ProcAttr, groups []string) (code int, err error) {
	started, err := startIn(s, attr, groups)
	if err != nil {
		say(guest.Frame{Kind: guest.Out, Name: s.Name, Data: []byte(err.Error() + "\n")})
		return 127, nil
	}
	limit := time.AfterFunc(time.Duration(s.Seconds)*time.Second, func() {
		say(guest.Frame{Kind: guest.Out, Name: s.Name, Data: fmt.Appendf(nil, "\ninit: not within %d s\n", s.Seconds)})
		_ = unix.Kill(-1, unix.SIGKILL)
	})
	defer limit.Stop()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case pid == started && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == started:
			return status.ExitStatus(), nil
		}
	}
}

// startIn starts the program as a child that is in the groups from its first instruction: this process is there for a moment.
func startIn(s guest.Step, attr *os.ProcAttr, groups []string) (int, error) {
	for _, dir := range groups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return 0, err
		}
	}
	defer func() {
		for _, dir := range groups {
			_ = os.WriteFile(filepath.Join(hierarchy(dir), "cgroup.procs"), []byte("0"), 0)
		}
	}()
	p, err := os.StartProcess(s.Argv[0], s.Argv, attr)
	if err != nil {
		return 0, err
	}
	pid := p.Pid
	_ = p.Release()
	return pid, nil
}

// hierarchy is the root of the hierarchy that a group of groupsFor is in.
func hierarchy(dir string) string {
	for dir != cgroupRoot && filepath.Dir(dir) != cgroupRoot {
		dir = filepath.Dir(dir)
	}
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.procs")); err == nil {
		return cgroupRoot
	}
	return dir
}

// groupsFor makes the step's control groups, one in each hierarchy. The user is given the group, as systemd gives a session's to its
// user, and its processes are in the one below.
func groupsFor(s guest.Step, h guest.Host) (groups []string, err error) {
	var roots []string
	switch h.Cgroup {
	case "none":
	case "", "v2":
		roots = []string{cgroupRoot}
	default:
		roots, _ = filepath.Glob(cgroupRoot + "/*")
	}
	for _, root := range roots {
		dir := filepath.Join(root, strings.ReplaceAll(s.Name, "/", "-"), "own")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} { // of v1, which has nothing in them at first
			for _, d := range []string{filepath.Dir(dir), dir} {
				if data, err := os.ReadFile(filepath.Join(filepath.Dir(d), name)); err == nil && filepath.Base(root) == "cpuset" {
					_ = os.WriteFile(filepath.Join(d, name), data, 0)
				}
			}
		}
		groups = append(groups, dir)
		if s.Shared && root == cgroupRoot {
			_ = os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"), []byte("+pids"), 0)
			_ = os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"), []byte("+memory"), 0) // which not all kernels have
		}
		if h.NoDelegation {
			continue
		}
		for _, d := range []string{filepath.Dir(dir), dir} {
			for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "tasks"} {
				if err := os.Chown(filepath.Join(d, name), s.UID, s.UID); err != nil && !os.IsNotExist(err) {
					return nil, err
				}
			}
		}
	}
	return groups, nil
}

// stepTimeout is how long a step's processes have for their end, and for the last of what they print: the machine may be an emulated one.
const stepTimeout = 30 * time.Second

// leftovers are the processes that are still in the step's groups after a while. They are killed.
func leftovers() (left []string) {
	for until := time.Now().Add(stepTimeout); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if left = processes(); len(left) == 0 {
			return nil
		}
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	return left
}

// processes lists all but the kernel's and this one: there are no others than steps'.
func processes() (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		words, err := os.ReadFile(name)
		if err == nil && len(words) > 0 && name != "/proc/1/cmdline" {
			found = append(found, strings.TrimPrefix(filepath.Dir(name), "/proc/")+" "+strings.ReplaceAll(string(words), "\x00", " "))
		}
	}
	return found
}

func environ(s guest.Step) []string {
	home := map[bool]string{true: "/root", false: "/home/tester"}[s.UID == 0]
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "TERM=linux", "LANG=C.UTF-8"}, s.Env...)
}

// relay sends what the step prints.
func relay(name string, r io.Reader, done chan<- struct{}) {
	defer close(done)
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			say(guest.Frame{Kind: guest.Out, Name: name, Data: buffer[:n]})
		}
		if err != nil {
			return
		}
	}
}

// sane is a terminal as a shell expects it.
func sane() *unix.Termios {
	attributes, _ := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS)
	attributes.Iflag = unix.ICRNL | unix.IXON
	attributes.Oflag = unix.OPOST | unix.ONLCR
	attributes.Lflag = unix.ISIG | unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.IEXTEN
	attributes.Cc[unix.VINTR], attributes.Cc[unix.VEOF], attributes.Cc[unix.VERASE], attributes.Cc[unix.VSUSP] = 3, 4, 127, 26
	return attributes
}
