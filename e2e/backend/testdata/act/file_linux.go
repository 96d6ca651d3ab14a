package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func fileActs() map[string]act {
	return map[string]act{
		"read":    func(a []string) (any, error) { data, err := os.ReadFile(a[0]); return string(data), err },
		"write":   func(a []string) (any, error) { return nil, os.WriteFile(a[0], []byte("from inside"), 0o600) },
		"unlink":  func(a []string) (any, error) { return nil, unix.Unlink(a[0]) },
		"rename":  func(a []string) (any, error) { return nil, unix.Rename(a[0], a[1]) },
		"link":    func(a []string) (any, error) { return nil, unix.Link(a[0], a[1]) },
		"mkdir":   func(a []string) (any, error) { return nil, unix.Mkdir(a[0], 0o700) },
		"cut":     func(a []string) (any, error) { return nil, unix.Truncate(a[0], 0) },
		"stat":    func(a []string) (any, error) { _, err := os.Lstat(a[0]); return nil, err },
		"chmod":   func(a []string) (any, error) { return nil, unix.Chmod(a[0], 0o640) },
		"watch":   watch,
		"private": private,
		"home":    home,
		"fill":    fill,
		"bounds":  bounds,
		"devices": devices,
		"usual":   usual,
		"pty":     pty,
		"remode":  remode,
		"open":    openOnly,
		"mknod":   func(a []string) (any, error) { return nil, unix.Mknod(a[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
		"tty":     tty,
	}
}

func watch(args []string) (any, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	_, err = unix.InotifyAddWatch(fd, args[0], unix.IN_ALL_EVENTS)
	return nil, err
}

// home writes into HOME, in which there is nothing but what a grant shows there.
func home(args []string) (any, error) {
	dir := os.Getenv("HOME")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != args[0] {
			return e.Name(), errors.New("it is not empty")
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, args[1]), []byte(args[1]), 0o600)
}

// private writes into a directory that is empty.
func private(args []string) (any, error) {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return entries[0].Name(), errors.New("it is not empty")
	}
	return nil, os.WriteFile(filepath.Join(args[0], args[1]), []byte(args[1]), 0o600)
}

// fill writes megabytes until there is no room, at most 64.
func fill(args []string) (any, error) {
	f, err := os.CreateTemp(args[0], "")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for n := range 64 {
		if _, err := f.Write(make([]byte, 1<<20)); errors.Is(err, unix.ENOSPC) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
	return 64, errors.New("there is no end of it")
}

// bounds is done if every file system in memory in which a file can be made has a size and a number of files that are less than half of
// what the kernel gives it by itself, and if the usual temporary directories are such ones.
func bounds([]string) (any, error) {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return nil, err
	}
	dirs, how := []string{"/tmp", "/var/tmp", "/dev/shm"}, map[string]string{}
	granted, err := os.Getwd() // which may be in memory on the host
	if err != nil {
		return nil, err
	}
	for _, m := range mountPoints("tmpfs") {
		if m == granted {
			continue
		}
		file := filepath.Join(m, "nse-bounds")
		if os.WriteFile(file, nil, 0o600) == nil {
			os.Remove(file)
			dirs, how[m] = append(dirs, m), ", to make files in"
		} else if fd, err := unix.Open(m, unix.O_TMPFILE|unix.O_WRONLY, 0o600); err == nil {
			unix.Close(fd)
			dirs, how[m] = append(dirs, m), ", to make files without a name in"
		}
	}
	found, pages := map[string]string{}, uint64(host.Totalram)*uint64(host.Unit)/uint64(os.Getpagesize())
	for _, dir := range dirs {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			return found, fmt.Errorf("%s: %w", dir, err)
		}
		found[dir] = fmt.Sprintf("type %x, %d blocks of %d, %d files%s", s.Type, s.Blocks, s.Bsize, s.Files, how[dir])
		most := pages / 4
		if s.Type != unix.TMPFS_MAGIC || s.Blocks == 0 || s.Blocks > most || s.Files == 0 || s.Files > most {
			err = errors.Join(err, fmt.Errorf("%s is not bounded: %s", dir, found[dir]))
		}
	}
	return found, err
}

func mountPoints(kind string) (points []string) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		left, right, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(left); len(fields) > 5 && strings.HasPrefix(right, kind+" ") {
			points = append(points, fields[4])
		}
	}
	return points
}

// risky are devices that opening alone may change something about.
var risky = []string{"watchdog", "snapshot", "st", "nst", "console", "ttyS", "hvc", "mem", "port", "vd", "sd", "nvme", "sr", "lp", "mei", "tpm", "cpu_dma_latency"}

// devices opens what is below /dev and not everybody's.
func devices([]string) (any, error) {
	allowed := strings.Fields("null zero full random urandom tty ptmx")
	var opened []string
	err := errors.New("none can be opened")
	_ = filepath.WalkDir("/dev", func(path string, d fs.DirEntry, walkErr error) error {
		if walkErr != nil || d.Type()&fs.ModeDevice == 0 || slices.Contains(allowed, d.Name()) || strings.HasPrefix(path, "/dev/pts/") {
			return nil
		}
		if slices.ContainsFunc(risky, func(r string) bool { return strings.HasPrefix(d.Name(), r) }) {
			return nil
		}
		if _, openErr := openOnly([]string{path}); openErr == nil {
			opened, err = append(opened, path), nil
		}
		return nil
	})
	return opened, err
}

func openOnly(args []string) (any, error) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return nil, err
}

// usual opens the devices that are everybody's.
func usual([]string) (any, error) {
	var errs []error
	for _, name := range strings.Fields("null zero full random urandom") {
		fd, err := unix.Open("/dev/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// pty makes a terminal and opens its other end.
func pty([]string) (any, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	_, err = unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return n, err
}

// remode gives /dev/null and its like the modes that they have.
func remode([]string) (any, error) {
	var errs []error
	var changed []string
	for _, name := range strings.Fields("null zero full random urandom") {
		info, err := os.Stat("/dev/" + name)
		if err == nil {
			err = unix.Chmod("/dev/"+name, uint32(info.Mode().Perm()))
		}
		if err == nil {
			changed = append(changed, name)
		}
		errs = append(errs, err)
	}
	if len(changed) > 0 {
		return changed, nil
	}
	return nil, errors.Join(errs...)
}

// tty is done if the standard descriptors are the controlling terminal.
func tty([]string) (any, error) {
	for fd := range 3 {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			return fd, err
		}
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return group, err
}
