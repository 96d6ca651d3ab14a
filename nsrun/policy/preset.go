package policy

import (
	"fmt"
	"slices"
	"strings"
)

// SystemDirs are the host's places for programs and libraries, shown read-only where they exist.
var SystemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/etc", "/opt", "/var/lib/python3"}

// SystemFacts are the host's places where programs look up what the system is, shown read-only and without execution where they exist: the databases
// of packages, and the processors. The database of apk, and in newer systems that of rpm, lies in SystemDirs. Their lock files are covered: see
// package plan.
var SystemFacts = []string{"/var/lib/dpkg", "/var/lib/rpm", cpuDir}

// cpuDir is all that sandboxes show of the host's sysfs.
const cpuDir = "/sys/devices/system/cpu"

// showsCPUs reports whether e shows cpuDir, as Default does.
func (e FS) showsCPUs() bool {
	return e.Kind == Bind && e.Source == cpuDir && e.Dest == cpuDir && e.System && e.NoExec && !e.Write
}

// privateDirs are the places that are always empty and the sandbox's own. Programs run from them as from anywhere, since memfd_create(2) lets every
// program run what it has written: [Policy.NoExec] is the boundary. Nothing but sockets and lists of users belongs in /run.
var privateDirs = []FS{
	{Dest: "/tmp", Mode: 0o1777}, {Dest: "/var/tmp", Mode: 0o1777}, {Dest: "/dev/shm", Mode: 0o1777},
	{Dest: "/run", Mode: 0o755, NoExec: true},
}

// Default is the most closed policy in which people can work: system directories read-only, private /tmp, /proc, /dev and home directory, no network,
// no environment of the caller's but the base. home is the path of the home directory, which is empty and the sandbox's own: see [HomePlace].
func Default(home string) Policy {
	var fs []FS
	for _, dir := range SystemDirs {
		fs = append(fs, FS{Kind: Bind, Source: dir, Dest: dir, Optional: true, Quiet: true, KeepLink: true, System: true, Why: "system"})
	}
	for _, place := range SystemFacts {
		fs = append(fs, FS{Kind: Bind, Source: place, Dest: place, NoExec: true, Optional: true, Quiet: true, System: true, Why: "system"})
	}
	fs = append(fs,
		FS{Kind: Proc, Dest: "/proc", System: true, Why: "always"},
		FS{Kind: Dev, Dest: "/dev", System: true, Why: "always"})
	for _, dir := range privateDirs {
		dir.Kind, dir.Write, dir.System, dir.Why = Tmpfs, true, true, "always"
		fs = append(fs, dir)
	}
	p := Policy{FS: fs, Home: home, Limits: []Limit{{Core, 0}}}
	if why := HomePlace(home); why != "" {
		p.Home = SandboxHome
		p.Notes = []Note{{Feature: "HOME", Loss: fmt.Sprintf("%q cannot be the home directory: %s; it is %s", home, why, p.Home), Fix: "set HOME to a directory of yours"}}
	}
	return p.WithHome(HomePrivate)
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
