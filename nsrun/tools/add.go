package tools

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Host is what of the caller presets depend on.
type Host struct {
	Home   string                           // the home directory on the host, absolute, or empty
	Lookup func(name string) (string, bool) // the caller's variables
	Gone   func(file string) bool           // reports whether there is nothing at a path, for certain
}

// Here is the host of this process.
func Here() Host {
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) {
		home = ""
	}
	gone := func(file string) bool {
		_, err := os.Stat(file)
		return errors.Is(err, os.ErrNotExist)
	}
	return Host{Home: path.Clean(home), Lookup: os.LookupEnv, Gone: gone}
}

// Add returns p with presets, each by its name or by the path of a file: see [Find]. What is not on this host is left out, and a note says so of programs.
// It comes after all that the policy's author asks for, and before [policy.Normalize].
func Add(p policy.Policy, words []string, h Host) (policy.Policy, error) {
	p.FS, p.Notes, p.Tools = slices.Clip(p.FS), slices.Clip(p.Notes), slices.Clip(p.Tools)
	p.Env.Pass = slices.Clip(p.Env.Pass)
	var faults []error
	for _, word := range words {
		t, err := Find(word)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if slices.Contains(p.Tools, t.Name) {
			continue
		}
		p.Tools = append(p.Tools, t.Name)
		a := adder{Policy: p, host: h, tool: t}
		a.environment()
		for _, place := range t.Places {
			a.place(place)
		}
		p = a.Policy
	}
	return p, errors.Join(faults...)
}

// adder is a policy that a preset is added to.
type adder struct {
	policy.Policy
	host Host
	tool Tool
}

func (a *adder) why() string { return "tool " + a.tool.Name }

func (a *adder) note(loss, fix string) {
	a.Notes = append(a.Notes, policy.Note{Feature: "tools", Loss: a.tool.Name + ": " + loss, Fix: fix})
}

// add adds an entry.
func (a *adder) add(e policy.FS) {
	e.Tool, e.Why = a.tool.Name, a.why()
	a.FS = append(a.FS, e)
}

// environment adds the preset's variables, and its filter. What the policy sets comes later, and wins.
func (a *adder) environment() {
	values := slices.Clone(a.tool.Set)
	if a.Network.Mode() == policy.NetworkNone {
		values = append(values, a.tool.Offline...)
	}
	passed := func(v policy.Var) bool { return slices.Contains(a.Env.Pass, v.Name) }
	a.Env.Set = slices.Concat(slices.DeleteFunc(values, passed), a.Env.Set)
	for _, name := range a.tool.Pass {
		if _, set := a.host.Lookup(name); set && !slices.Contains(a.Env.Pass, name) {
			a.Env.Pass = append(a.Env.Pass, name)
		}
	}
	switch filter := a.tool.Filter; {
	case filter == "" || a.Seccomp.Filter == filter:
	case a.Seccomp.Filter != "":
		a.note("its filter of system calls is "+filter+", and "+a.Seccomp.Filter+" was asked for, which stays", "leave out one of them")
	default:
		a.Seccomp.Filter = filter
	}
}

// place adds what the sandbox sees at a place.
func (a *adder) place(place Place) {
	if place.Kind == Program {
		a.program(place)
		return
	}
	source := a.host.path(place.Path)
	if source == "" || slices.Contains([]Kind{Read, Cache, Build}, place.Kind) && a.host.Gone(source) {
		return
	}
	dest := a.inside(source)
	if at := a.At(dest); at != nil && at.Kind == policy.Bind && at.Write && at.Dest != a.Home {
		return // it is granted already
	}
	switch place.Kind {
	case Read:
		a.add(policy.FS{Kind: policy.Bind, Source: source, Dest: dest, Optional: true, Quiet: true})
	case Build:
		if at := a.At(dest); a.KeepHome != "" && policy.Inside(dest, a.Home) || at != nil && at.Dest == a.Home && at.Kind == policy.Bind {
			return
		}
		fallthrough
	case Cache:
		a.add(policy.FS{Kind: policy.Overlay, Source: source, Dest: dest, Write: true, Optional: true, Quiet: true})
	case Private:
		a.add(policy.FS{Kind: policy.Tmpfs, Dest: dest, Write: true, Mode: 0o700})
	case Settings:
		a.settings(source, dest)
	}
}

// inside is where a place of the host's is shown: at its own path, or in the sandbox's home directory where that has another one.
func (a *adder) inside(source string) string {
	if rest, ok := strings.CutPrefix(source, a.host.Home+"/"); ok && a.host.Home != "" && a.Home != "" {
		return path.Join(a.Home, rest)
	}
	return source
}

// path is the place that the first alternative names whose variable is set, or empty. What a variable holds beyond a clean path is not used.
func (h Host) path(alternatives string) string {
	for one := range strings.SplitSeq(alternatives, "|") {
		first, rest, _ := strings.Cut(one, "/")
		switch {
		case first == "~" && h.Home != "":
			return path.Join(h.Home, rest)
		case first == "":
			return one
		case strings.HasPrefix(first, "$"):
			dir, _ := h.Lookup(first[1:])
			dir, _, _ = strings.Cut(dir, ":") // GOPATH is a list, whose first directory go fetches to
			if filepath.IsAbs(dir) && policy.CheckPath(path.Clean(dir)) == nil {
				return path.Join(dir, rest)
			}
		}
	}
	return ""
}
