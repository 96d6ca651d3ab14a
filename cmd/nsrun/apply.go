package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
)

func (f *flags) apply(pol policy.Policy) (policy.Policy, error) {
	var faults []error
	pol.FS = slices.Clone(pol.FS)
	grant := func(flag string, paths []string, kind policy.Kind, write bool) {
		for _, p := range paths {
			abs, err := absolute(p)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", flag, err))
				continue
			}
			pol.FS = append(pol.FS, policy.FS{Kind: kind, Source: abs, Dest: abs, Write: write, Directory: flag == "--workspace", NoFollow: flag == "--workspace",
				Force: flag == "--force-rw", Why: flag})
			if flag == "--workspace" {
				pol.Dir = abs
			}
		}
	}
	grant("--ro", f.ro, policy.Bind, false)
	grant("--rw", f.rw, policy.Bind, true)
	grant("--force-rw", f.forceRW, policy.Bind, true)
	grant("--socket", f.sockets, policy.Socket, true)
	if f.workspace != "" {
		grant("--workspace", []string{f.workspace}, policy.Bind, true)
	}
	faults = append(faults, f.applyMounts(&pol)...)
	if f.chdir != "" {
		pol.Dir = filepath.Clean(f.chdir)
	}
	pol.NoExec = pol.NoExec || f.noExec
	pol, err := f.applyHome(pol)
	faults = append(faults, err, f.applyProtect(&pol))
	if f.audit != "" {
		abs, err := absolute(f.audit)
		if err != nil {
			faults = append(faults, fmt.Errorf("--audit: %w", err))
		}
		pol.Audit = append(slices.Clip(pol.Audit), abs)
	}
	faults = append(faults, f.applyNet(&pol))
	faults = append(faults, f.applyEnv(&pol)...)
	faults = append(faults, f.applyRest(&pol)...)
	faults = append(faults, f.applyTools(&pol)...)
	pol, err = f.applyCommands(pol)
	faults = append(faults, err)
	pol, err = f.applyAutonomy(pol)
	faults = append(faults, err)
	pol, err = f.switches(pol)
	return pol, errors.Join(append(faults, err)...)
}

// applyTools names the presets; normalize adds them, with the manifest's.
func (f *flags) applyTools(pol *policy.Policy) (faults []error) {
	pol.Tools = slices.Clip(pol.Tools)
	for _, list := range f.tools {
		for word := range strings.SplitSeq(list, ",") {
			if _, err := tools.Find(word); err != nil {
				faults = append(faults, fmt.Errorf("--tool: %w", err))
				continue
			}
			pol.Tools = append(pol.Tools, word)
		}
	}
	return faults
}

// applyHome gives pol the home directory of --home.
func (f *flags) applyHome(pol policy.Policy) (policy.Policy, error) {
	switch {
	case f.home == "":
		return pol, nil
	case f.home == policy.HomePrivate, f.home == policy.HomeNone:
		pol.KeepHome = ""
		return pol.WithHome(f.home), nil
	case f.home == policy.HomeKeep:
		return keepHome(pol)
	case !strings.Contains(f.home, "/"):
		return pol, fmt.Errorf("--home %s: use private, keep, none, or a directory with a slash in it, as in ./%s", f.home, f.home)
	}
	dir, err := absolute(f.home)
	if err != nil {
		return pol, fmt.Errorf("--home: %w", err)
	}
	pol.KeepHome = ""
	return pol.WithHomeDir(dir, "--home"), nil
}

// keepHome has pol's home directory kept for its workspace, of which the flag's wins.
func keepHome(pol policy.Policy) (policy.Policy, error) {
	for _, why := range []string{"--workspace", "workspace"} {
		if i := slices.IndexFunc(pol.FS, func(e policy.FS) bool { return e.Why == why }); i >= 0 {
			pol.KeepHome = pol.FS[i].Source
			return pol, nil
		}
	}
	return pol, errors.New("--home keep: there is no workspace to keep it for; add --workspace DIR, or name a directory with --home DIR")
}

// applyProtect puts the level of --protect in the place of the manifest's, and adds its paths.
func (f *flags) applyProtect(pol *policy.Policy) error {
	level := ""
	var faults []error
	for _, word := range f.protect {
		switch isLevel := slices.Contains(policy.Protects, policy.Protect(word)); {
		case isLevel && level != "":
			faults = append(faults, fmt.Errorf("--protect %s: the level is %s already; give one", word, level))
		case isLevel:
			level = word
			pol.Protect = policy.Protect(word)
		case !strings.Contains(word, "/"):
			faults = append(faults, fmt.Errorf("--protect %s: use %s, or a path with a slash in it, as in ./%s", word, strings.Join(policy.Words(policy.Protects), ", "), word))
		default:
			abs, err := absolute(word)
			if err != nil {
				faults = append(faults, fmt.Errorf("--protect: %w", err))
				continue
			}
			pol.ProtectPaths = append(slices.Clip(pol.ProtectPaths), abs)
		}
	}
	return errors.Join(faults...)
}

// applyAutonomy puts --autonomy in the place of the manifest's, which it can only lower.
func (f *flags) applyAutonomy(pol policy.Policy) (policy.Policy, error) {
	asked := policy.Autonomy(f.autonomy)
	if pol.Autonomy != "" && asked.Wider(pol.Autonomy) && f.autonomy != "" {
		return pol, fmt.Errorf("--autonomy %s: the manifest says %s, and a flag can only lower that; leave the flag out", asked, pol.Autonomy)
	}
	if f.autonomy != "" {
		pol.Autonomy = asked
	}
	if pol.Autonomy == policy.FullAccess && slices.Contains(f.net, string(policy.NetworkNone)) {
		return pol, errors.New("--net none: the autonomy full has the host's network; lower it with --autonomy supervised")
	}
	return pol, nil
}

func (f *flags) applyRest(pol *policy.Policy) (faults []error) {
	for _, l := range f.labels {
		v, err := parseLabel(l)
		if err == nil {
			pol.Labels, err = policy.WithLabels(pol.Labels, v)
		}
		if err != nil {
			faults = append(faults, badLabel(l, err))
		}
	}
	faults = append(faults, f.applyLimits(pol)...)
	if f.timeoutGiven {
		pol.Timeout = f.timeout
	}
	if f.grace != 0 {
		pol.KillGrace = f.grace
	}
	if f.hostname != "" {
		pol.Hostname = f.hostname
	}
	pol.NoLandlock = pol.NoLandlock || f.noLandlock
	pol.Seccomp.Deny = append(slices.Clip(pol.Seccomp.Deny), f.deny...)
	faults = append(faults, f.applySeccomp(&pol.Seccomp))
	for _, id := range []struct {
		flag, text string
		into       **int
	}{{"--uid", f.uid, &pol.UID}, {"--gid", f.gid, &pol.GID}} {
		if id.text == "" {
			continue
		}
		n, err := strconv.Atoi(id.text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: not a number; give 0 to %d", id.flag, id.text, 1<<31-1))
			continue
		}
		*id.into = &n
	}
	return faults
}

// applyEnv passes the variables that -e names, and sets those that it gives a value. A name of a variable that the caller has not is a note: it is
// probably misspelt.
func (f *flags) applyEnv(pol *policy.Policy) (faults []error) {
	pol.Env.Pass, pol.Env.Set, pol.Notes = slices.Clip(pol.Env.Pass), slices.Clip(pol.Env.Set), slices.Clip(pol.Notes)
	for _, word := range f.env {
		name, value, set := strings.Cut(word, "=")
		if strings.ContainsAny(name, " \t\n") {
			faults = append(faults, fmt.Errorf("-e %q: a variable's name has no blanks; write -e once for each variable, as in -e A -e B=1", word))
			continue
		}
		if set {
			pol.Env.Set = append(pol.Env.Set, policy.Var{Name: name, Value: value})
			continue
		}
		pol.Env.Pass = append(pol.Env.Pass, name)
		if _, there := os.LookupEnv(name); !there {
			pol.Notes = append(pol.Notes, policy.Note{Feature: "env", Loss: name + " is not set here, and is not passed", Fix: "set it, or write -e " + name + "=VALUE"})
		}
	}
	return faults
}

// badLabel is the error for a --label.
func badLabel(label string, err error) error {
	if policy.CheckText(label) != nil {
		label = strconv.Quote(label)
	}
	return fmt.Errorf("--label %s: %w", label, err)
}

// parseLabel reads NAME=VALUE.
func parseLabel(s string) (policy.Var, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return policy.Var{}, errors.New("write NAME=VALUE, as in task=17")
	}
	return policy.Var{Name: name, Value: value}, policy.CheckLabel(name, value)
}

// widened notes what flags have made wider than a manifest says, beside the grants that they add: times, limits and the filter.
func widened(was, is policy.Policy) (notes []policy.Note) {
	note := func(flag, now, before string) {
		notes = append(notes, policy.Note{Feature: "flags", Loss: fmt.Sprintf("%s %s counts, over the %s of the manifest", flag, now, before),
			Fix: "leave the flag out"})
	}
	if was.Timeout != 0 && (is.Timeout == 0 || is.Timeout > was.Timeout) {
		note("--timeout", is.Timeout.String(), was.Timeout.String())
	}
	if is.KillGrace > was.KillGrace {
		note("--kill-grace", is.KillGrace.String(), was.KillGrace.String())
	}
	if is.Protect.Less(was.Protect) {
		note("--protect", string(is.Protect.Level()), string(was.Protect.Level()))
	}
	for _, l := range was.Limits {
		if now, ok := is.Limit(l.Name); ok && now > l.Value {
			note("--limit", fmt.Sprintf("%s=%d", l.Name, now), strconv.FormatInt(l.Value, 10))
		}
	}
	if was.Seccomp.Filter != "" && is.Seccomp.Filter != was.Seccomp.Filter {
		note("--seccomp", is.Seccomp.Filter, was.Seccomp.Filter)
	}
	return notes
}

// applySeccomp takes a built-in filter by name, one from a file, or both: off with a file is that file alone.
func (f *flags) applySeccomp(into *policy.Seccomp) error {
	var names, files []string
	for _, word := range f.seccomp {
		if strings.Contains(word, "/") {
			files = append(files, word)
		} else {
			names = append(names, word)
		}
	}
	if len(names) > 1 || len(files) > 1 {
		return fmt.Errorf("--seccomp: give one filter by name and one file, not %s", strings.Join(f.seccomp, " and "))
	}
	for _, name := range names {
		if !slices.Contains(policy.SeccompFilters, name) {
			return noFilter(name)
		}
		into.Filter = name
	}
	for _, name := range files {
		raw, err := load.Filter(name)
		if err != nil {
			return fmt.Errorf("--seccomp: %w", err)
		}
		into.Raw = raw
	}
	return nil
}

// noFilter is the error for what stands in the place of a filter's name, and may be the name of a file.
func noFilter(name string) error {
	if _, err := os.Lstat(name); err == nil || strings.HasSuffix(name, ".bpf") || strings.HasSuffix(name, ".json") {
		return fmt.Errorf("--seccomp %s: no filter is called that; for the file write --seccomp ./%s", name, name)
	}
	return fmt.Errorf("--seccomp: filter %q: not one of %s; a file is named by a path with a / in it", name, strings.Join(policy.SeccompFilters, ", "))
}
