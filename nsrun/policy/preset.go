package policy

import (
	"slices"
	"strings"
)

// SystemDirs are the host's places for programs and libraries, shown read-only where they exist.
var SystemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/etc", "/opt", "/var/lib/python3"}

// privateDirs are the places that are always empty and the sandbox's own.
var privateDirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// Default is the most closed policy that is of use: system directories read-only, private /tmp, /proc and /dev, no network, no
// environment of the caller's but the base. home is where the account files say the user lives; it is empty unless granted.
func Default(home string) Policy {
	var fs []FS
	for _, dir := range SystemDirs {
		fs = append(fs, FS{Kind: Bind, Source: dir, Dest: dir, Optional: true, Quiet: true, KeepLink: true, System: true, Why: "system"})
	}
	fs = append(fs,
		FS{Kind: Proc, Dest: "/proc", System: true, Why: "always"},
		FS{Kind: Dev, Dest: "/dev", System: true, Why: "always"})
	for _, dir := range privateDirs {
		fs = append(fs, FS{Kind: Tmpfs, Dest: dir, Write: true, NoExec: true, Mode: 0o1777, System: true, Why: "always"})
	}
	if home != "" && home != "/" {
		fs = append(fs, FS{Kind: Dir, Dest: home, System: true, Why: "home, empty unless granted"})
	}
	return Policy{FS: fs, Home: home, Limits: []Limit{{Core, 0}}}
}

// Bare reports whether there is no sandbox: the command sees the host as it is, and paths are those of the host.
func (p Policy) Bare() bool {
	return p.Isolation.Level() != Container || p.Backend == BackendNone
}

// Grant returns p with the host path shown at its own place.
func (p Policy) Grant(path string, write bool, why string) Policy {
	p.FS = append(p.FS[:len(p.FS):len(p.FS)], FS{Kind: Bind, Source: path, Dest: path, Write: write, Why: why})
	return p
}

// Private reports whether path is a place that a sandbox always has for itself, or lies above one: granting the host's would
// undo that.
func Private(path string) bool {
	return slices.ContainsFunc([]string{"/proc", "/dev", "/sys", "/tmp", "/var/tmp"}, func(own string) bool { return Inside(own, path) })
}

// Inside reports whether path is dir or lies below it. Both must be absolute and clean.
func Inside(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
