package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func loadActs() map[string]act {
	return map[string]act{
		"forks":   {1, forks},
		"daemons": {1, daemons},
		"memory":  {1, memory},
		"fill":    {2, fill},
		"inodes":  {2, inodes},
		"fds":     {1, fds},
		"spin":    {0, func([]string) error { spin(); return nil }},
		"deep":    {2, deep},
		"zombies": {0, zombies},
	}
}

// fork makes a child that only sleeps, by system calls alone: what Go cannot do, a child of a program with threads.
func fork(session bool) (int, error) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if pid == 0 {
		if session {
			unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		}
		for {
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	return int(pid), nil
}

// forks is reached when n children live at once. It ends them.
func forks(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	var pids []int
	for len(pids) < n && err == nil {
		var pid int
		if pid, err = fork(false); err == nil {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
	if err != nil {
		return fmt.Errorf("after %d children: %w", len(pids), err)
	}
	return nil
}

// daemons leaves n children behind, each with a session of its own, and says how many came to be.
func daemons(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	for i := range n {
		if _, err := fork(true); err != nil {
			return fmt.Errorf("after %d daemons: %w", i, err)
		}
	}
	return nil
}

// memory touches n MiB.
func memory(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	const step = 16
	for i := 0; i < n; i += step {
		m, err := unix.Mmap(-1, 0, step<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("after %d MiB: %w", i, err)
		}
		for j := 0; j < len(m); j += 4096 {
			m[j] = 1
		}
	}
	return nil
}

// fill writes n MiB into a new file.
func fill(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer os.Remove(args[0])
	defer f.Close()
	buf := make([]byte, 1<<20)
	for i := range n {
		if _, err := f.Write(buf); err != nil {
			return fmt.Errorf("after %d MiB: %w", i, err)
		}
	}
	return nil
}

// inodes makes n empty files in a directory.
func inodes(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range n {
		if err := unix.Mknod(filepath.Join(args[0], "i"+strconv.Itoa(i)), unix.S_IFREG|0o600, 0); err != nil {
			return fmt.Errorf("after %d files: %w", i, err)
		}
	}
	return nil
}

func fds(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := unix.Dup(0); err != nil {
			return fmt.Errorf("after %d descriptors: %w", i, err)
		}
	}
	return nil
}

func spin() {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
	}
}

// deep makes n directories, each in the one before.
func deep(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	name := strings.Repeat("d", 255)
	for i := range n {
		if err := unix.Mkdir(name, 0o700); err != nil {
			return fmt.Errorf("after %d directories: %w", i, err)
		}
		if err := unix.Chdir(name); err != nil {
			return err
		}
	}
	return nil
}

// zombies counts processes that nobody has waited for.
func zombies([]string) error {
	for range 20 {
		n := 0
		names, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), ") Z ") {
				n++
			}
		}
		if n == 0 {
			fmt.Printf("no zombies among %d\n", len(names))
			return silent
		}
		time.Sleep(50 * time.Millisecond)
	}
	return na("zombies stay")
}
