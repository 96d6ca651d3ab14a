package policy

import (
	"path"
	"slices"
	"strings"
)

// The home directories that have a name. Any other is a directory of the host: see [Policy.WithHomeDir].
const (
	HomePrivate = "private" // empty and writable, in memory: gone when the sandbox ends
	HomeNone    = "none"    // empty and read-only
	HomeKeep    = "keep"    // kept for the workspace, writable: see [Policy.KeepHome]
)

// SandboxHome is the home directory where the user's own cannot be one.
const SandboxHome = "/home/sandbox"

// WithHome returns p with a home directory of that name, in place of the one that [Default] gives. An empty p.Home has none.
func (p Policy) WithHome(name string) Policy {
	home := FS{Kind: Tmpfs, Dest: p.Home, Write: true, Mode: 0o700, System: true, Why: "home, private"}
	if name == HomeNone {
		home = FS{Kind: Dir, Dest: p.Home, System: true, Why: "home, empty unless granted"}
	}
	return p.withHome(home)
}

// WithHomeDir returns p with a directory of the host as the home directory, writable. why names what asked for it.
func (p Policy) WithHomeDir(dir, why string) Policy {
	return p.withHome(FS{Kind: Bind, Source: dir, Dest: p.Home, Write: true, Directory: true, NoFollow: true, Force: true, Why: why})
}

func (p Policy) withHome(home FS) Policy {
	p.FS = slices.DeleteFunc(slices.Clone(p.FS), func(e FS) bool { return e.System && e.Dest == p.Home })
	if p.Home != "" && p.Home != "/" {
		p.FS = append(p.FS, home)
	}
	return p
}

// At returns the entry that decides what is seen at a place: the last of those at the closest place. It is nil if the path is not in the view.
func (p Policy) At(place string) (at *FS) {
	for i, e := range p.FS {
		if Inside(place, e.Dest) && (at == nil || len(e.Dest) >= len(at.Dest)) {
			at = &p.FS[i]
		}
	}
	return at
}

// checkHome finds home directories that the policy's command rules do not go with: what a command has left there could be run by the name of
// another one.
func (p Policy) checkHome(say sayer) {
	if p.Commands == "" {
		return
	}
	given := slices.ContainsFunc(p.FS, func(e FS) bool { return e.Dest == p.Home && e.Kind == Bind && e.Write && e.Source != e.Dest })
	if p.KeepHome != "" || given {
		say("home", "under command rules the home directory is a fresh one; use private or none")
	}
}

// homeFits leaves the private home directory out where something that was asked for lies at its place or above: the grant is the home then. An empty
// one that lies in a writable place, as below /tmp, gets a file system of its own, which cannot be written. It cannot if something is mounted in it.
func (p Policy) homeFits() (Policy, []Note) {
	if i := slices.IndexFunc(p.FS, func(e FS) bool { return e.System && e.Kind == Dir && e.Dest == p.Home }); i >= 0 {
		above := p.At(path.Dir(p.Home))
		within := slices.ContainsFunc(p.FS, func(e FS) bool { return e.Dest != p.Home && Inside(e.Dest, p.Home) })
		if above != nil && above.Write && !within {
			p.FS = slices.Clone(p.FS)
			p.FS[i].Kind, p.FS[i].NoExec, p.FS[i].SizeMB, p.FS[i].Mode = Tmpfs, true, 1, 0o555
		}
	}
	i := slices.IndexFunc(p.FS, func(e FS) bool { return e.Kind == Bind && !e.System && e.Dest == e.Source && Inside(p.Home, e.Dest) })
	if i < 0 || p.Home == "" {
		return p, nil
	}
	grant := p.FS[i]
	p.FS = slices.DeleteFunc(slices.Clone(p.FS), func(e FS) bool { return e.System && e.Dest == p.Home })
	return p, []Note{{Feature: "home", Loss: grant.Dest + " (" + grant.Why + ") shows the home directory, with the keys and tokens that programs keep there: in " + strings.Join(secretPlaces[:4], ", ") + " and more",
		Fix: "grant the directory that is needed, or name what the command must not see in another place"}}
}

// notHome are the places that no home directory can be at, in or above.
func notHome() []string {
	return slices.Concat([]string{"/proc", "/dev", "/sys", "/run", "/tmp", "/var/tmp"}, SystemDirs, SystemFacts)
}

// HomePlace says why no home directory can be at a path, or nothing. It must be absolute and clean, and neither in nor above a directory that
// sandboxes show of the system: HOME=/etc must not show the host's /etc, nor hide the sandbox's.
func HomePlace(home string) (why string) {
	switch {
	case home == "":
		return "it is not set"
	case !strings.HasPrefix(home, "/"):
		return "it is relative"
	case CheckPath(home) != nil:
		return "it is no clean path"
	case slices.Contains([]string{"/tmp", "/var/tmp"}, home):
		return "each sandbox has one for itself"
	}
	for _, dir := range notHome() {
		above := Inside(dir, home)
		if in := Inside(home, dir) && dir != "/tmp" && dir != "/var/tmp"; in || above {
			return "it is in or above " + dir
		}
	}
	return ""
}
