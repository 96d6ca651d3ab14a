package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func processActs() map[string]act {
	return map[string]act{
		"signal": on(func(pid int) error { return unix.Kill(pid, 0) }),
		"tgkill": on(func(pid int) error { return unix.Tgkill(pid, pid, 0) }),
		"pidfd":  on(pidfd),
		"getfd":  on(getfd),
		"seize":  on(seize),
		"memory": on(func(pid int) error { _, err := openOnly([]string{fmt.Sprintf("/proc/%d/mem", pid)}); return err }),
		"rlimit": on(func(pid int) error { return unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &unix.Rlimit{}) }),
		"renice": on(renice), "affinity": on(affinity), "ioprio": on(ioprio), "schedule": on(schedule),
		"environ": environ,
		"cmdline": cmdline,
		"look":    look,
		"daemon":  daemon,
		"linger":  linger,
		"ignore": func([]string) (any, error) {
			signal.Ignore(unix.SIGTERM)
			time.Sleep(20 * time.Second)
			return nil, nil
		},
		"variable": func(args []string) (any, error) {
			for _, v := range os.Environ() {
				if strings.Contains(v, args[0]) {
					return v, nil
				}
			}
			return nil, errors.New("no variable has it")
		},
	}
}

// on makes an act of what is done to a process.
func on(do func(pid int) error) act {
	return func(args []string) (any, error) {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return nil, err
		}
		return nil, do(pid)
	}
}

func pidfd(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

func getfd(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

// seize traces a process until this one ends.
func seize(pid int) error {
	runtime.LockOSThread()
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// renice, affinity, ioprio and schedule set what they find.
func renice(pid int) error {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, pid, 20-raw)
}

func affinity(pid int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return err
	}
	return unix.SchedSetaffinity(pid, &set)
}

func ioprio(pid int) error {
	const process, usual = 1, 2<<13 | 4 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_BE with its middle priority
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(pid), usual); errno != 0 {
		return errno
	}
	return nil
}

func schedule(pid int) error {
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		return err
	}
	return unix.SchedSetAttr(pid, attr, 0)
}

func environ(args []string) (any, error) {
	data, err := os.ReadFile("/proc/" + args[0] + "/environ")
	if err == nil && !bytes.Contains(data, []byte(args[1])) {
		err = errors.New("it is another process")
	}
	return nil, err
}

// cmdline looks for a process by a word of its command line, which this one must not have, so the word comes in two halves.
func cmdline(args []string) (any, error) {
	word := args[0] + args[1]
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(word)) {
			return name, nil
		}
	}
	return len(names), errors.New("no process has it")
}

// look looks into a process by what is guarded like tracing.
func look(args []string) (any, error) {
	dir := "/proc/" + args[0] + "/"
	names, _ := filepath.Glob(dir + "fd/*")
	var seen []string
	err := errors.New("nothing can be seen")
	for _, name := range append(names, dir+"root", dir+"cwd", dir+"exe") {
		to, linkErr := os.Readlink(name)
		if linkErr != nil {
			continue
		}
		seen, err = append(seen, name+" -> "+to), nil
	}
	for _, name := range []string{"environ", "mem", "maps"} {
		if _, openErr := openOnly([]string{dir + name}); openErr == nil {
			seen, err = append(seen, dir+name), nil
		}
	}
	return seen, err
}

// daemon leaves a process behind that has left session, group and parent, ignores signals, and is known by a word. With a second word
// "parent" it first tries to end what has started it.
func daemon(args []string) (any, error) {
	if len(args) > 1 && args[1] == "parent" {
		_ = unix.Kill(os.Getppid(), unix.SIGKILL)
	}
	ready := make([]byte, 1)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], "linger", args[0], "fork")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	w.Close()
	if _, err := r.Read(ready); err != nil {
		return nil, fmt.Errorf("the daemon: %w", err)
	}
	if len(args) > 1 && args[1] == "stay" {
		fmt.Println(`{"act":"daemon","done":true}`)
		signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
		time.Sleep(20 * time.Second)
	}
	return nil, nil
}

// linger is the daemon: it starts itself once more, so that nobody is its parent, says so on descriptor 3, and ends by itself at last.
func linger(args []string) (any, error) {
	pipe := os.NewFile(3, "pipe")
	if args[1] == "fork" {
		cmd := exec.Command(os.Args[0], "linger", args[0], "stay")
		cmd.ExtraFiles = []*os.File{pipe}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return nil, cmd.Start()
	}
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	for fd := range 3 {
		unix.Close(fd)
	}
	_, _ = pipe.Write([]byte{1})
	pipe.Close()
	time.Sleep(20 * time.Second)
	os.Exit(0)
	return nil, nil
}
