package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// shown are the file systems whose own options are part of the fingerprint.
var shown = map[string]bool{"tmpfs": true, "overlay": true, "proc": true, "devpts": true, "mqueue": true}

// mounts describes the mount table in order, without numbers that differ from run to run.
func mounts() []string {
	var out []string
	parents := map[string]string{}
	for _, line := range lines(proc("self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 {
			out = append(out, line)
			continue
		}
		parents[f[0]] = f[4]
		var tags []string
		for _, tag := range f[6:] {
			name, _, _ := strings.Cut(tag, ":")
			tags = append(tags, name)
		}
		super := ""
		if shown[g[0]] {
			super = g[2]
		}
		out = append(out, fmt.Sprintf("%s on %s %s [%s] %s %s %s (in %s)", f[3], f[4], f[5], strings.Join(tags, " "), g[0], g[1], super, parents[f[1]]))
	}
	return out
}

func interfaces() []string {
	var out []string
	all, err := net.Interfaces()
	if err != nil {
		return []string{err.Error()}
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		out = append(out, fmt.Sprintf("%s %v %v %v", i.Name, i.Flags, addrs, err))
	}
	return out
}

const tooMany = 400

// list describes a tree. Directories of /proc and /sys are not entered.
func list(root string) []string {
	var out []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil && d == nil {
			out = append(out, err.Error())
			return nil
		}
		if len(out) > tooMany {
			return filepath.SkipAll
		}
		if passing(path) {
			return nil
		}
		out = append(out, describe(path, err))
		if d.IsDir() && foreign(path) {
			return filepath.SkipDir
		}
		return nil
	})
	return out
}

// passing reports whether a file is a message queue of the tests in e2e/backend, which make them on the host while others run.
func passing(path string) bool {
	const mqueueMagic = 0x19800202 // MQUEUE_MAGIC in ipc/mqueue.c
	var s unix.Statfs_t
	return strings.HasPrefix(filepath.Base(path), "nse") && unix.Statfs(path, &s) == nil && s.Type == mqueueMagic
}

func foreign(path string) bool {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return false
	}
	return s.Type == unix.PROC_SUPER_MAGIC || s.Type == unix.SYSFS_MAGIC || path == "/fp" || strings.HasSuffix(path, "/pts")
}

func describe(path string, walk error) string {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return path + " " + err.Error()
	}
	text := fmt.Sprintf("%s %o %d:%d", path, s.Mode, s.Uid, s.Gid)
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, _ := os.Readlink(path)
		text += " -> " + target
	case unix.S_IFCHR, unix.S_IFBLK:
		text += fmt.Sprintf(" dev %d:%d", unix.Major(uint64(s.Rdev)), unix.Minor(uint64(s.Rdev)))
	case unix.S_IFREG:
		text += content(path, s.Size)
	}
	if walk != nil {
		text += " " + walk.Error()
	}
	return text
}

func content(path string, size int64) string {
	if size > 1<<16 {
		return fmt.Sprintf(" %d bytes", size)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return " " + err.Error()
	}
	if len(data) < 40 {
		return fmt.Sprintf(" %q", data)
	}
	return fmt.Sprintf(" %d bytes %x", len(data), sha256.Sum256(data))
}
