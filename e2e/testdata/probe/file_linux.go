package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func fileActs() map[string]act {
	one := func(f func(string) error) act { return act{1, func(a []string) error { return f(a[0]) }} }
	two := func(f func(string, string) error) act { return act{2, func(a []string) error { return f(a[0], a[1]) }} }
	return map[string]act{
		"open":           two(open),
		"openat":         two(openat),
		"stat":           one(func(p string) error { _, err := os.Lstat(p); return err }),
		"list":           {1, list},
		"create":         one(create),
		"touch":          one(func(p string) error { return errors.Join(create(p), ignore(os.Remove(p))) }),
		"mkdir":          one(func(p string) error { return os.Mkdir(p, 0o755) }),
		"link":           two(os.Link),
		"rename":         two(os.Rename),
		"unlink":         one(func(p string) error { return unix.Unlink(p) }),
		"symlink-read":   two(symlinkRead),
		"symlink-create": two(symlinkCreate),
		"truncate":       one(func(p string) error { return unix.Truncate(p, 1) }),
		"ftruncate":      one(ftruncate),
		"chmod":          two(chmod),
		"chown":          one(func(p string) error { return unix.Lchown(p, os.Getuid(), os.Getgid()) }),
		"utimes":         one(func(p string) error { return unix.Utimes(p, make([]unix.Timeval, 2)) }),
		"setxattr":       one(func(p string) error { return unix.Setxattr(p, "user.nsrun", []byte("x"), 0) }),
		"mknod":          two(mknod),
		"mmapwrite":      one(mmapWrite),
		"lease":          one(lease),
		"exec-copy":      one(execCopy),
		"exec-memfd":     {0, execMemfd},
		"loader":         one(loader),
		"move-parent":    two(moveParent),
		"cat":            one(cat),
		"getcwd":         {0, getcwd},
	}
}

func ignore(error) error { return nil }

func open(mode, name string) error {
	flags := map[string]int{"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "trunc": os.O_WRONLY | os.O_TRUNC}
	f, err := os.OpenFile(name, flags[mode]|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && name != os.DevNull && isNull(info) {
		return blocked(unix.ENODATA, "covered by /dev/null")
	}
	if mode != "r" {
		return nil
	}
	buf := make([]byte, 64)
	n, err := f.Read(buf)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		return err
	}
	return reached("%q", buf[:n])
}

// isNull says whether a file is the null device: 1, 3 (null(4)).
func isNull(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&os.ModeCharDevice != 0 && st.Rdev == unix.Mkdev(1, 3)
}

func openat(dirfd, name string) error {
	fd, err := strconv.Atoi(dirfd)
	if err != nil {
		return err
	}
	_, err = unix.Openat(fd, name, unix.O_RDONLY, 0)
	return err
}

// list is reached if a directory shows more than the names that it may.
func list(args []string) error {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return err
	}
	var extra []string
	for _, e := range entries {
		if !slices.Contains(args[1:], e.Name()) {
			extra = append(extra, e.Name())
		}
	}
	if len(extra) > 0 {
		return reached("%q", extra)
	}
	return blocked(unix.ENOENT, "nothing else is there")
}

func create(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("planted\n")
	return errors.Join(err, f.Close())
}

func symlinkRead(target, link string) error {
	if err := os.Symlink(target, link); err != nil {
		return na("cannot make the symlink: %v", err)
	}
	return open("r", link)
}

func symlinkCreate(target, link string) error {
	if err := os.Symlink(target, link); err != nil {
		return na("cannot make the symlink: %v", err)
	}
	f, err := os.OpenFile(link, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func ftruncate(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return unix.Ftruncate(fd, 1)
}

func chmod(name, mode string) error {
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return err
	}
	return unix.Chmod(name, uint32(bits))
}

func mknod(name, kind string) error {
	mode := map[string]uint32{"char": unix.S_IFCHR, "block": unix.S_IFBLK}[kind]
	err := unix.Mknod(name, mode|0o600, int(unix.Mkdev(1, 3)))
	if err == nil {
		_ = os.Remove(name)
	}
	return err
}

// mmapWrite tries to change a file's page cache: by a shared mapping, and by /proc/self/mem past a read-only one.
func mmapWrite(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR, 0)
	if err == nil {
		m, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		m[0] = 'X'
		return nil
	}
	fd, readErr := unix.Open(name, unix.O_RDONLY, 0)
	if readErr != nil {
		return readErr
	}
	if _, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		return reached("a shared writable mapping of a read-only descriptor")
	}
	m, mapErr := unix.Mmap(fd, 0, 4, unix.PROT_READ, unix.MAP_SHARED)
	if mapErr != nil {
		return mapErr
	}
	if mem, memErr := os.OpenFile("/proc/self/mem", os.O_RDWR, 0); memErr == nil {
		if _, memErr = mem.WriteAt([]byte("X"), int64(address(m))); memErr == nil {
			return reached("/proc/self/mem wrote into a shared read-only mapping")
		}
	}
	return err
}

// lease takes a read lease, for which the kernel makes the next writer wait: F_SETLEASE of fcntl(2).
func lease(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return err
}

// execCopy writes a program into dir and executes it.
func execCopy(dir string) error {
	name := filepath.Join(dir, "probe-copy")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return na("%v", err)
	}
	if err := os.WriteFile(name, self, 0o755); err != nil {
		return na("%v", err)
	}
	defer os.Remove(name)
	return exec.Command(name, "getcwd").Run()
}

// execMemfd writes a program into a file in memory and executes it.
func execMemfd([]string) error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return na("%v", err)
	}
	fd, err := unix.MemfdCreate("probe-copy", 0)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := os.WriteFile(name, self, 0); err != nil {
		return na("%v", err)
	}
	return unix.Exec(name, []string{"probe", "stat", "/"}, nil)
}

// loader runs a program by the dynamic loader, which needs no right to execute it.
func loader(tool string) error {
	var loaders []string
	for _, pattern := range []string{"/lib64/ld-linux*.so.*", "/lib/ld-linux*.so.*", "/lib/ld-musl-*.so.*"} {
		found, _ := filepath.Glob(pattern)
		loaders = append(loaders, found...)
	}
	if len(loaders) == 0 {
		return na("no dynamic loader")
	}
	out, err := exec.Command(loaders[0], tool, "MARK").CombinedOutput()
	if strings.TrimSpace(string(out)) == "MARK" {
		return nil
	}
	if _, statErr := os.Stat(tool); statErr != nil {
		return statErr
	}
	return fmt.Errorf("the loader: %v: %s", err, out)
}

// moveParent renames the directory above leaf away, makes it anew and writes the leaf.
func moveParent(leaf, text string) error {
	dir := filepath.Dir(leaf)
	if err := os.Rename(dir, dir+".old"); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(leaf, []byte(text), 0o644)
}

func cat(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	os.Stdout.Write(data)
	return silent
}

func getcwd([]string) error {
	buf := make([]byte, 4096)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", bytes.TrimRight(buf[:n], "\x00"))
	return silent
}
