package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// flags are those that run and plan share.
type flags struct {
	manifest, ceiling        string
	audit                    string
	ro, rw, sockets          stringList
	workspace, chdir         string
	net                      string
	env, setenv, labels      stringList
	timeout, grace           time.Duration
	limits                   stringList
	seccomp                  stringList
	deny                     stringList
	hostname                 string
	uid, gid                 string
	fallback, backend        string
	isolation                string
	commands, autonomy       string
	require                  stringList
	selfTest, verify         bool
	tty, noLandlock, verbose bool
	timeoutGiven             bool
	protected                []string // real paths
}

func (f *flags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.manifest, "manifest", "", "")
	fs.StringVar(&f.ceiling, "ceiling", "", "")
	fs.StringVar(&f.audit, "audit", "", "")
	fs.Var(&f.ro, "ro", "")
	fs.Var(&f.rw, "rw", "")
	fs.Var(&f.sockets, "socket", "")
	fs.StringVar(&f.workspace, "workspace", "", "")
	fs.StringVar(&f.chdir, "chdir", "", "")
	fs.StringVar(&f.net, "net", "", "")
	fs.Var(&f.env, "env", "")
	fs.Var(&f.setenv, "setenv", "")
	fs.Var(&f.labels, "label", "")
	fs.Var(durationFlag{into: &f.timeout}, "timeout", "")
	fs.Var(durationFlag{into: &f.grace, least: time.Millisecond}, "kill-grace", "")
	fs.Var(&f.limits, "limit", "")
	fs.Var(&f.seccomp, "seccomp", "")
	fs.Var(&f.deny, "seccomp-deny", "")
	fs.StringVar(&f.hostname, "hostname", "", "")
	fs.StringVar(&f.uid, "uid", "", "")
	fs.StringVar(&f.gid, "gid", "", "")
	fs.StringVar(&f.fallback, "fallback", "", "")
	fs.StringVar(&f.backend, "backend", "", "")
	fs.StringVar(&f.isolation, "isolation", "", "")
	fs.Var(&f.require, "require", "")
	fs.StringVar(&f.commands, "commands", "", "")
	fs.StringVar(&f.autonomy, "autonomy", "", "")
	fs.BoolVar(&f.selfTest, "self-test", false, "")
	fs.BoolVar(&f.tty, "tty", false, "")
	fs.BoolVar(&f.tty, "t", false, "")
	fs.BoolVar(&f.noLandlock, "no-landlock", false, "")
	fs.BoolVar(&f.verbose, "v", false, "")
	fs.BoolVar(&f.verbose, "verbose", false, "")
}

// request makes of flags, manifest and ceiling what is to be planned.
func (a *app) request(f *flags, fs *flag.FlagSet) (plan.Request, error) {
	pol, err := f.spec(fs)
	if err != nil {
		return plan.Request{}, err
	}
	if fs.NArg() == 0 {
		return plan.Request{}, fmt.Errorf("no command; put it after --, as in: nsrun %s -- ls -la", fs.Name())
	}
	return a.requestOf(f, pol, fs.Args())
}

func (a *app) requestOf(f *flags, pol policy.Policy, command []string) (plan.Request, error) {
	if command[0] == "" {
		return plan.Request{}, errors.New("the command is an empty word; give the name or path of a program")
	}
	return plan.Request{Policy: pol, Command: command, Environ: a.environ, Terminal: f.tty, Sole: true}, nil
}

// spec makes of flags, manifest and ceiling what the command is to run under.
func (f *flags) spec(fs *flag.FlagSet) (policy.Policy, error) {
	fs.Visit(func(g *flag.Flag) { f.timeoutGiven = f.timeoutGiven || g.Name == "timeout" })
	home := runner.Home()
	pol, err := f.base(home)
	if err != nil {
		return policy.Policy{}, err
	}
	manifest := pol
	if pol, err = f.apply(pol); err != nil {
		return policy.Policy{}, err
	}
	if pol, err = f.normalize(pol); err != nil {
		return policy.Policy{}, err
	}
	if f.manifest != "" {
		pol.Notes = append(pol.Notes[:len(pol.Notes):len(pol.Notes)], widened(manifest, pol)...)
	}
	if !bare(pol) { // the ceiling does not permit that
		pol.Notes = slices.DeleteFunc(slices.Clone(pol.Notes), func(n policy.Note) bool { return n.Feature == switchNote })
	}
	return f.ownDir(pol), nil
}

// base is the manifest's policy, or the default one with the working directory read-only.
func (f *flags) base(home string) (policy.Policy, error) {
	if f.manifest != "" {
		f.protected = append(f.protected, load.Real(f.manifest)...)
		return load.Spec(f.manifest)
	}
	pol := policy.Default(home)
	if !f.tty { // who sits at a terminal ends it
		pol.Timeout = defaultTimeout
	}
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

// normalize makes of wishes what the operator permits; --ceiling can only narrow further.
func (f *flags) normalize(pol policy.Policy) (policy.Policy, error) {
	op, ceilings, err := load.Operator(f.ceiling)
	if err != nil {
		return pol, err
	}
	pol, err = policy.Normalize(pol, op)
	if err = errors.Join(f.byFlag(err), f.byFlag(commands.Check(pol))); err == nil {
		f.protected = append(f.protected, ceilings...)
	}
	return pol, err
}

func absolute(name string) (string, error) {
	if name == "" {
		return "", errors.New("the path is empty")
	}
	abs, err := load.Absolute(name)
	if err != nil {
		return "", err
	}
	return filepath.Clean(abs), nil
}

// defaultTimeout bounds a command that nobody has said a time for: against what is forgotten.
const defaultTimeout = 24 * time.Hour
