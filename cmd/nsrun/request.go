package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// flags are those that run and plan share.
type flags struct {
	manifest, ceiling        string
	ro, rw, sockets          words
	workspace, chdir         string
	net                      string
	env, setenv              words
	timeout, grace           time.Duration
	limits                   words
	seccomp                  string
	deny                     words
	hostname                 string
	uid, gid                 string
	fallback, backend        string
	isolation                string
	require                  words
	selfTest                 bool
	tty, noLandlock, verbose bool
	timeoutGiven             bool
	protected                []string // real paths
}

func (f *flags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.manifest, "manifest", "", "")
	fs.StringVar(&f.ceiling, "ceiling", "", "")
	fs.Var(&f.ro, "ro", "")
	fs.Var(&f.rw, "rw", "")
	fs.Var(&f.sockets, "socket", "")
	fs.StringVar(&f.workspace, "workspace", "", "")
	fs.StringVar(&f.chdir, "chdir", "", "")
	fs.StringVar(&f.net, "net", "", "")
	fs.Var(&f.env, "env", "")
	fs.Var(&f.setenv, "setenv", "")
	fs.Var(span{into: &f.timeout}, "timeout", "")
	fs.Var(span{into: &f.grace, least: time.Millisecond}, "kill-grace", "")
	fs.Var(&f.limits, "limit", "")
	fs.StringVar(&f.seccomp, "seccomp", "", "")
	fs.Var(&f.deny, "seccomp-deny", "")
	fs.StringVar(&f.hostname, "hostname", "", "")
	fs.StringVar(&f.uid, "uid", "", "")
	fs.StringVar(&f.gid, "gid", "", "")
	fs.StringVar(&f.fallback, "fallback", "", "")
	fs.StringVar(&f.backend, "backend", "", "")
	fs.StringVar(&f.isolation, "isolation", "", "")
	fs.Var(&f.require, "require", "")
	fs.BoolVar(&f.selfTest, "self-test", false, "")
	fs.BoolVar(&f.tty, "tty", false, "")
	fs.BoolVar(&f.tty, "t", false, "")
	fs.BoolVar(&f.noLandlock, "no-landlock", false, "")
	fs.BoolVar(&f.verbose, "v", false, "")
	fs.BoolVar(&f.verbose, "verbose", false, "")
}

// request makes of flags, manifest and ceiling what is to be planned.
func (a *app) request(f *flags, fs *flag.FlagSet) (plan.Request, error) {
	fs.Visit(func(g *flag.Flag) { f.timeoutGiven = f.timeoutGiven || g.Name == "timeout" })
	home := homeDir()
	pol, err := f.base(home)
	if err != nil {
		return plan.Request{}, err
	}
	if pol, err = f.apply(pol); err != nil {
		return plan.Request{}, err
	}
	entries, notes := policy.Arrange(pol.FS)
	pol.FS, pol.Notes = entries, append(pol.Notes, notes...)
	if err := pol.Validate(); err != nil {
		return plan.Request{}, f.byFlag(pol, err)
	}
	if pol, err = f.underCeiling(pol); err != nil {
		return plan.Request{}, err
	}
	if !bare(pol) { // the ceiling does not permit that
		pol.Notes = slices.DeleteFunc(slices.Clone(pol.Notes), func(n policy.Note) bool { return n.Feature == switchNote })
	}
	pol = f.ownDir(pol)
	if fs.NArg() == 0 {
		return plan.Request{}, fmt.Errorf("no command; put it after --, as in: nsrun %s -- ls -la", fs.Name())
	}
	if fs.Arg(0) == "" {
		return plan.Request{}, errors.New("the command is an empty word; give the name or path of a program")
	}
	return plan.Request{Policy: pol, Command: fs.Args(), Environ: a.environ, Terminal: f.tty}, nil
}

// base is the manifest's policy, or the default one with the working directory read-only.
func (f *flags) base(home string) (policy.Policy, error) {
	if f.manifest != "" {
		f.protect(f.manifest)
		return loadManifest(f.manifest, home)
	}
	pol := policy.Default(home)
	if f.workspace != "" {
		return pol, nil
	}
	cwd, err := os.Getwd()
	if err != nil && f.chdir != "" {
		return pol, nil // it is not needed
	}
	if err != nil {
		return pol, fmt.Errorf("the working directory is gone: %w; change to one that exists", err)
	}
	if f.shows(cwd) { // as asked for: showing it read-only as well would narrow that
		pol.Dir = cwd
		return pol, nil
	}
	if reason := notGranted(cwd, home); reason != "" && f.chdir != "" {
		return pol, nil // it starts elsewhere
	} else if reason != "" {
		pol.Notes = append(pol.Notes, policy.Note{Feature: "working directory", Loss: cwd + " is " + reason + ", and is not shown; the command starts in /",
			Fix: "start in a directory of its own, or name what is needed with --ro or --workspace"})
		return pol, nil
	}
	pol.Dir = cwd
	return pol.Grant(cwd, false, "working directory"), nil
}

// shows reports whether a flag shows dir.
func (f *flags) shows(dir string) bool {
	return slices.ContainsFunc(slices.Concat(f.ro, f.rw), func(p string) bool {
		abs, err := absolute(p)
		return err == nil && policy.Inside(dir, abs)
	})
}

// notGranted says why a working directory is not shown just because the caller stands in it.
func notGranted(cwd, home string) string {
	switch {
	case home != "" && policy.Inside(home, cwd):
		return "your home directory or above it"
	case policy.Private(cwd), policy.Inside(cwd, "/proc"), policy.Inside(cwd, "/sys"), policy.Inside(cwd, "/dev"):
		return "a place that each sandbox has for itself"
	}
	return ""
}

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
			pol.FS = append(pol.FS, policy.FS{Kind: kind, Source: abs, Dest: abs, Write: write, Directory: flag == "--workspace", Why: flag})
			if flag == "--workspace" {
				pol.Dir = abs
			}
		}
	}
	grant("--ro", f.ro, policy.Bind, false)
	grant("--rw", f.rw, policy.Bind, true)
	grant("--socket", f.sockets, policy.Socket, true)
	if f.workspace != "" {
		grant("--workspace", []string{f.workspace}, policy.Bind, true)
	}
	if f.chdir != "" {
		pol.Dir = filepath.Clean(f.chdir)
	}
	if f.net != "" {
		pol.Network = policy.Network(f.net)
	}
	pol.Env.Pass = append(pol.Env.Pass[:len(pol.Env.Pass):len(pol.Env.Pass)], f.env...)
	faults = append(faults, f.applyRest(&pol)...)
	pol, err := f.switches(pol)
	return pol, errors.Join(append(faults, err)...)
}

func (f *flags) applyRest(pol *policy.Policy) (faults []error) {
	for _, v := range f.setenv {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			faults = append(faults, fmt.Errorf("--setenv %s: write NAME=VALUE; to pass the caller's value use --env %s", v, v))
			continue
		}
		pol.Env.Set = append(pol.Env.Set[:len(pol.Env.Set):len(pol.Env.Set)], policy.Var{Name: name, Value: value})
	}
	for _, l := range f.limits {
		name, value, ok := strings.Cut(l, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil && !errors.Is(err, strconv.ErrRange) { // what does not fit is the largest there is, and out of range
			faults = append(faults, fmt.Errorf("--limit %s: write NAME=NUMBER, as in --limit open_files=256", l))
			continue
		}
		*pol = pol.WithLimit(name, n)
	}
	if f.timeoutGiven {
		pol.Timeout = f.timeout
	}
	if f.grace != 0 {
		pol.KillGrace = f.grace
	}
	if f.hostname != "" {
		pol.Hostname = f.hostname
	}
	for _, name := range f.env {
		if strings.Contains(name, "=") {
			faults = append(faults, fmt.Errorf("--env %s: write the name alone; to set a value use --setenv %s", name, name))
		}
	}
	pol.NoLandlock = pol.NoLandlock || f.noLandlock
	pol.Seccomp.Deny = append(pol.Seccomp.Deny[:len(pol.Seccomp.Deny):len(pol.Seccomp.Deny)], f.deny...)
	if strings.Contains(f.seccomp, "/") {
		raw, err := readFilter(f.seccomp)
		if err != nil {
			faults = append(faults, fmt.Errorf("--seccomp: %w", err))
		}
		pol.Seccomp.Raw = raw
	} else if f.seccomp != "" {
		pol.Seccomp.Profile = f.seccomp
	}
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

// maxFilter is the size of the largest filter: 4096 instructions of 8 bytes.
const maxFilter = 4096 * 8

// readFilter reads a filter; an empty file is none, and not what was asked for.
func readFilter(name string) ([]byte, error) {
	data, err := readFile(name, maxFilter)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("%s is empty; a filter has at least one instruction of 8 bytes", name)
	}
	return data, err
}

func loadManifest(name, home string) (policy.Policy, error) {
	data, err := readFile(name, manifest.MaxSize)
	if err != nil {
		return policy.Policy{}, fmt.Errorf("manifest: %w", err)
	}
	m, err := manifest.Parse(name, data)
	if err != nil {
		return policy.Policy{}, err
	}
	// The real path, so that the rule that a manifest may not lie in what it makes writable cannot be led around.
	abs, err := filepath.Abs(name)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return policy.Policy{}, fmt.Errorf("manifest: %w", err)
	}
	ctx := manifest.Context{Home: home, Dir: filepath.Dir(abs), Path: abs}
	raw, err := m.RawFile(ctx)
	if err != nil {
		return policy.Policy{}, err
	}
	pol, err := m.Policy(ctx)
	if err == nil && raw != "" {
		if pol.Seccomp.Raw, err = readFilter(raw); err != nil {
			err = fmt.Errorf("%s: seccomp.raw: %w", name, err)
		}
	}
	return pol, err
}

// defaultCeiling is the operator's, whoever calls.
const defaultCeiling = "/etc/nsrun/ceiling.json"

// underCeiling cuts the policy down to what the operator permits. The default file always counts; NSRUN_CEILING and --ceiling can
// only narrow further.
func (f *flags) underCeiling(pol policy.Policy) (policy.Policy, error) {
	for _, c := range []struct {
		path     string
		optional bool
	}{{defaultCeiling, true}, {os.Getenv("NSRUN_CEILING"), false}, {f.ceiling, false}} {
		if c.path == "" {
			continue
		}
		data, err := readFile(c.path, manifest.MaxSize)
		if c.optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return pol, fmt.Errorf("ceiling: %w", err)
		}
		f.protect(c.path)
		ceiling, err := manifest.ParseCeiling(c.path, data)
		if err != nil {
			return pol, err
		}
		var cut []policy.Note
		pol, cut = pol.Under(ceiling)
		pol.Notes = append(pol.Notes[:len(pol.Notes):len(pol.Notes)], cut...)
	}
	return pol, nil
}

func absolute(name string) (string, error) {
	if name == "" {
		return "", errors.New("the path is empty")
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("%s: the working directory is gone: %w; give an absolute path", name, err)
	}
	return abs, nil
}

// homeDir is HOME if that can be a home directory, else what the account file says, else none.
func homeDir() string {
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) || filepath.Clean(home) == "/" {
		u, err := user.LookupId(strconv.Itoa(os.Getuid()))
		if err != nil {
			return ""
		}
		home = u.HomeDir
	}
	if home = filepath.Clean(home); home == "/" || policy.CheckPath(home) != nil {
		return ""
	}
	return home
}

// protect notes a file that the sandbox must not be able to write: it governs, or reports, this run or the next.
func (f *flags) protect(name string) {
	if abs, err := filepath.Abs(name); err == nil {
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			f.protected = append(f.protected, real)
		}
	}
}
