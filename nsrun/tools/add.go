package tools

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Host is what of the caller presets depend on.
type Host struct {
	Home   string                            // the home directory on the host, absolute and clean, or empty
	Lookup func(name string) (string, bool)  // the caller's variables
	Real   func(file string) (string, error) // the path without symlinks, as filepath.EvalSymlinks gives it
}

// Here is the host of this process.
func Here() Host {
	h := Host{Lookup: os.LookupEnv, Real: filepath.EvalSymlinks}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		h.Home = path.Clean(home)
	}
	return h
}

// Add returns p with the presets that it names in Tools, by their names or by the paths of files: see [Find]. Presets that a ceiling does not permit are left out,
// with a note. What is not on this host is left out, too. Files are the rows that were read, which no sandbox may be able to write.
//
// It comes after all that the policy's author asks for, once, and right before [policy.Normalize] with the same operator.
func Add(p policy.Policy, op policy.Operator, h Host) (with policy.Policy, files []string, err error) {
	words := p.Tools
	p.FS, p.Notes, p.Tools, p.Env.Pass = slices.Clip(p.FS), slices.Clip(p.Notes), nil, slices.Clip(p.Env.Pass)
	asked := p
	var faults []error
	for _, word := range words {
		t, err := Find(word)
		if err == nil && strings.Contains(word, "/") {
			files = append(files, t.Name)
			err = outOfReach(asked, t.Name, h)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if slices.Contains(p.Tools, t.Name) {
			continue
		}
		if i := slices.IndexFunc(op.Ceilings, func(c policy.Ceiling) bool { return !slices.Contains(c.Tools, t.Name) }); i >= 0 {
			p.Notes = append(p.Notes, policy.Note{Feature: "tools", Loss: "the preset " + t.Name + " is beyond the ceiling; nothing of it is added",
				Fix: fmt.Sprintf("the operator's ceiling would permit it by \"tools\": [%q]", t.Name)})
			continue
		}
		p.Tools = append(p.Tools, t.Name)
		a := adder{Policy: p, asked: asked, host: h, tool: t, strict: strict(p, op)}
		a.environment()
		for _, place := range t.Places {
			a.place(place)
		}
		p = a.Policy
	}
	return p, files, errors.Join(faults...)
}

// outOfReach returns an error for a row that the policy's own command could write: the next run would take it for the user's.
func outOfReach(p policy.Policy, file string, h Host) error {
	real, err := h.Real(file)
	if err != nil {
		return err
	}
	for _, e := range p.FS {
		if e.Kind != policy.Bind || !e.Write {
			continue
		}
		source, err := h.Real(e.Source)
		if err != nil {
			source = e.Source
		}
		if policy.Inside(real, source) || policy.Inside(file, e.Source) {
			return fmt.Errorf("%s lies in %s, which the command can write (%s); keep the row out of it", file, e.Source, e.Why)
		}
	}
	return nil
}

// adder is a policy that a preset is added to.
type adder struct {
	policy.Policy
	asked policy.Policy // without any preset
	host  Host
	tool  Tool
	// strict has git directories read-only, as a workspace's own is.
	strict bool
	// safe are the tops of repositories for git's safe.directory.
	safe []string
}

// strict reports whether the policy, or a ceiling, protects the whole .git.
func strict(p policy.Policy, op policy.Operator) bool {
	return p.Protect.Level() == policy.ProtectStrict ||
		slices.ContainsFunc(op.Ceilings, func(c policy.Ceiling) bool { return c.Protect.Level() == policy.ProtectStrict })
}

func (a *adder) note(loss, fix string) {
	a.Notes = append(a.Notes, policy.Note{Feature: "tools", Loss: a.tool.Name + ": " + loss, Fix: fix})
}

// add adds an entry.
func (a *adder) add(e policy.FS) {
	e.Tool, e.Why = a.tool.Name, "tool "+a.tool.Name
	a.FS = append(a.FS, e)
}

// environment adds the preset's variables, and its filter. What the policy sets comes later, and wins.
func (a *adder) environment() {
	values := slices.Clone(a.tool.Set)
	if a.Network.Mode() == policy.NetworkNone && a.Autonomy != policy.FullAccess && !a.Bare() {
		values = append(values, a.tool.Offline...)
	}
	passed := func(v policy.Var) bool { return slices.Contains(a.Env.Pass, v.Name) }
	a.Env.Set = slices.Concat(slices.DeleteFunc(values, passed), a.Env.Set)
	for _, name := range a.tool.Pass {
		a.pass(name)
	}
	switch filter := a.tool.Filter; {
	case filter == "" || a.Seccomp.Filter == filter:
	case a.Seccomp.Filter != "":
		a.note("its filter of system calls is "+filter+", and "+a.Seccomp.Filter+" was asked for, which stays", "leave out one of them")
	default:
		a.Seccomp.Filter = filter
	}
}

// pass takes a variable from the caller if it is set.
func (a *adder) pass(name string) {
	if _, set := a.host.Lookup(name); set && !slices.Contains(a.Env.Pass, name) {
		a.Env.Pass = append(a.Env.Pass, name)
	}
}

// place adds what the sandbox sees at a place.
func (a *adder) place(place Place) {
	if place.Kind == Repository {
		a.repositories()
		return
	}
	source, variable := a.host.path(place)
	if source == "" {
		if place.Kind == Socket || place.Kind == Agent {
			a.note("there is no "+strings.ReplaceAll(place.Path, "|", ", nor ")+" ("+place.Why+")", "start the agent")
		}
		return
	}
	dest := a.inside(source)
	if at, _ := a.host.path(Place{Path: place.At}); at != "" {
		dest = a.inside(at)
	}
	at := a.asked.At(dest)
	switch given := at != nil && at.Kind == policy.Bind && at.Dest == a.Home; {
	case at != nil && at.Kind == policy.Bind && !given && (!at.System || place.Kind == Read):
		return // it is granted already, or the system's
	case place.Kind == Build && (given || a.KeepHome != "" && policy.Inside(dest, a.Home)):
		return
	case place.Kind == Private:
		a.add(policy.FS{Kind: policy.Tmpfs, Dest: dest, Write: true, Mode: 0o700})
		return
	case place.Kind == Settings:
		a.settings(source, dest)
		return
	case (place.Kind == Agent || place.Kind == Socket) && a.Bare(): // without a sandbox the command has the host's
		return
	case place.Kind == Agent || place.Kind == Socket:
		a.socket(place.Kind, source, dest)
		return
	}
	why := a.unfit(source, variable)
	if info, err := os.Stat(source); why == "" && err == nil && !info.IsDir() && (place.Kind == Cache || place.Kind == Build) {
		why = "it is not a directory" // an overlay mount takes no other
	}
	if why != "" {
		if why != gone {
			a.note(source+" is not shown: "+why, "grant what is needed with --ro, or name another directory")
		}
		return
	}
	if place.Kind == Copy {
		a.copy(source, dest)
		return
	}
	e := policy.FS{Kind: policy.Bind, Source: source, Dest: dest, Optional: true, Variable: variable}
	if place.Kind != Read {
		e.Kind, e.Write = policy.Overlay, true
	}
	if err := e.Check(); err != nil {
		a.note(source+" is not shown: "+err.Error(), "name another directory")
		return
	}
	a.add(e)
	if variable != "" {
		a.pass(variable)
	}
}

// gone is why nothing has to be said.
const gone = "it is not there"

// unfit says why a place of the host's is not shown: it is not there, or it leads to more than the preset is for. What a variable names could have been put
// there by a command, in a workspace for example, so no link counts on the way.
func (a *adder) unfit(source, variable string) (why string) {
	real, err := a.host.Real(source)
	if errors.Is(err, os.ErrNotExist) {
		return gone
	}
	if err != nil {
		return err.Error()
	}
	if variable != "" && real != source {
		return "$" + variable + " leads through a symlink to " + real
	}
	home := a.host.Home
	if at, err := a.host.Real(home); home != "" && err == nil {
		home = at
	}
	if home != "" && policy.Secret(real, home) && !isPublic(real, home) {
		return real + " is where keys or tokens are kept"
	}
	if why, _ := policy.Mistake(real, home); why != "" {
		return real + " is " + why
	}
	return ""
}

// inside is where a place of the host's is shown: at its own path, or in the sandbox's home directory where that has another one.
func (a *adder) inside(source string) string {
	if rest, ok := strings.CutPrefix(source, a.host.Home+"/"); ok && a.host.Home != "" && a.Home != "" {
		return path.Join(a.Home, rest)
	}
	return source
}

// path is the place that the first alternative names whose variable is set, and that variable; or empty. Of a socket it is the first that is there.
func (h Host) path(p Place) (place, variable string) {
	for one := range strings.SplitSeq(p.Path, "|") {
		place, variable = h.one(one)
		if place == "" {
			continue
		}
		if _, err := os.Lstat(place); p.Kind != Socket || err == nil {
			return place, variable
		}
	}
	return "", ""
}

// one is the place that one alternative names.
func (h Host) one(alternative string) (place, variable string) {
	first, rest, _ := strings.Cut(alternative, "/")
	name, isVariable := strings.CutPrefix(first, "$")
	switch {
	case first == "~" && h.Home != "":
		return path.Join(h.Home, rest), ""
	case first == "" && alternative != "":
		return alternative, ""
	case isVariable:
		dir, _ := h.Lookup(name)
		dir, _, _ = strings.Cut(dir, ":") // GOPATH is a list, whose first directory go fetches to
		if filepath.IsAbs(dir) && policy.CheckPath(path.Clean(dir)) == nil {
			return path.Join(dir, rest), name
		}
	}
	return "", ""
}
