package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
)

// flags are those that run and plan share.
type flags struct {
	manifest, ceiling       string
	audit, result           string
	ro, rw, mounts, sockets stringList
	tools                   stringList
	forceRW, protect        stringList
	workspace, chdir, home  string
	net                     stringList
	ask                     string
	askTimeout              time.Duration
	env, labels             stringList
	timeout, grace          time.Duration
	limits                  stringList
	seccomp                 stringList
	deny                    stringList
	hostname                string
	uid, gid                string
	fallback, backend       string
	isolation               string
	commands, autonomy      string
	require                 stringList
	selfTest, verify        bool
	explain                 explainFlag
	tty, noLandlock, noExec bool
	verbose, quiet          bool
	timeoutGiven            bool
	asked, wished           policy.Policy // what the manifest asks for; and with the flags, before the operator's ceiling
	protected               []string      // real paths
}

// rows are the flags that run, plan and wrap share.
func (f *flags) rows() []flagRow {
	limits := make([]string, len(policy.LimitTable))
	for i, l := range policy.LimitTable {
		limits[i] = l.Name
	}
	return []flagRow{
		{"--manifest FILE", &f.manifest, "policy, JSON or YAML; the flags below add to it, and count where both name a value", ""},
		{"--ro PATH", &f.ro, "show PATH read-only (repeat)", ""},
		{"--rw PATH", &f.rw, "show PATH writable (repeat)", ""},
		{"--mount SRC:DST[:ro][:noexec]", &f.mounts, "show SRC at DST, writable unless it says ro (repeat)", ""},
		{"--workspace DIR", &f.workspace, "show DIR writable and start in it", ""},
		{"--force-rw PATH", &f.forceRW, "like --rw, and insist where that is refused as a probable mistake (repeat)", ""},
		{"--home private|keep|none|DIR", offered{&f.home, []string{policy.HomePrivate, policy.HomeKeep, policy.HomeNone}}, "the home directory: private (default: empty, writable, gone afterwards), keep (one for each workspace, " +
			"which the next run finds; see nsrun home), none (empty, read-only), or DIR of the host, which has a slash in it", "home"},
		{"--protect LEVEL|PATH", &f.protect, "what is done about git hooks, settings of editors and the like in writable places: report (default), revert, strict, off; " +
			"or one more PATH, with a slash in it, that stays read-only (repeat); see nsrun help protect", "protect"},
		{"--tool NAME,...|FILE", offered{&f.tools, tools.Names}, "add what a tool needs, such as the host's caches: " + strings.Join(tools.Names, ", ") +
			"; or a FILE with a row of your own, which has a slash in it (repeat); see nsrun tool list", "tools"},
		{"--noexec", &f.noExec, "run no programs from writable places, files in memory included", ""},
		{"--socket PATH", &f.sockets, "show one Unix socket (repeat)", ""},
		{"-w, -C, --chdir DIR", &f.chdir, "start in DIR, a path inside", "dir"},
		{"--net none|host|allow:RULE,...", offered{&f.net, netWords}, "network: none (default: only a loopback of its own), host, or what the rules name and nothing else, as in " +
			"allow:example.com:443,*.pypi.org (repeat); see nsrun help network", "network"},
		{"-e, --setenv, --env NAME[=VALUE]", &f.env, "pass the caller's variable, unless its name looks like a secret's, or set one (repeat)", "env."},
		{"--timeout DURATION", durationFlag{into: &f.timeout}, "end the run after so long: SIGTERM, and SIGKILL after --kill-grace " +
			"(default: 30s with a manifest; else 24h, but none with --tty; 0 for none)", ""},
		{"--kill-grace DURATION", durationFlag{into: &f.grace, least: time.Millisecond}, "time between SIGTERM and SIGKILL " +
			"(default 2s)", ""},
		{"--limit NAME=NUMBER", offered{&f.limits, limits}, "a limit (repeat), in the unit that its name says or with one, as in memory_mb=2G; nsrun help limits explains: " + strings.Join(limits, ", "), "limits"},
		{"--seccomp FILTER", offered{&f.seccomp, policy.SeccompFilters}, "default, compute, network, build, off; or the path of a file beside it: raw BPF, or, in " +
			"builds with libseccomp, Docker's JSON (repeat: one name, one file)", ""},
		{"--seccomp-deny NAME", &f.deny, "refuse one more system call (repeat)", ""},
		{"--no-landlock", &f.noLandlock, "leave Landlock out", ""},
		{"--hostname NAME", &f.hostname, "name of the host inside (default sandbox)", "hostname"},
		{"--uid N", &f.uid, "id of the user inside (default the caller's)", "uid"},
		{"--gid N", &f.gid, "id of the group inside (default the caller's)", "gid"},
		{"--fallback degrade", offered{&f.fallback, policy.Words(policy.Fallbacks)}, "run without what this host cannot enforce, by the strongest backend that works, and " +
			"say so (default strict)", "fallback"},
		{"--backend NAME", offered{&f.backend, policy.Words(policy.Backends)}, "auto (native, or with degrade the strongest that works), native, bwrap, docker (or " +
			"Podman), landlock (no namespaces), none (no sandbox); nsrun status has what each of them loses", "backend"},
		{"--require LIST", offered{&f.require, policy.Requirements()}, "guarantees that must hold whatever the backend and the fallback, and tools: what presets show is there (repeat)", ""},
		{"--isolation LEVEL", offered{&f.isolation, policy.Words(policy.Isolations)}, "container (default); subprocess: no sandbox, but a process group, limits, time and " +
			"environment as asked for; permissive: the command as you would run it, but for time", "isolation"},
		{"--autonomy LEVEL", offered{&f.autonomy, policy.Words(policy.Autonomies)}, "readonly, supervised (default) or full: what becomes of grants; see nsrun help autonomy", "autonomy"},
		{"--commands NAME", offered{&f.commands, commands.Names}, "command rules, which say what command lines may run at all: passive, full, or one of the " +
			"manifest's; see nsrun help commands", "commands"},
		{"--self-test", &f.selfTest, "have the sandbox try what must fail before it starts the command", ""},
		{"--explain[=all]", &f.explain, "report what is refused, and what would allow it, in the result and after a command that failed; " +
			"all: looking at files too", "explain"},
		{"--ceiling FILE", &f.ceiling, "cut everything down to this operator's ceiling; /etc/nsrun/ceiling.json and NSRUN_CEILING " +
			"always count", ""},
		{"--audit FILE", &f.audit, "append a row to FILE before the command starts, or it does not, and one when it has ended; " +
			"NSRUN_AUDIT names a file that counts besides", "audit["},
		{"--label NAME=VALUE", &f.labels, "a word of yours for those rows, as task=17 (repeat)", ""},
		{"-t, -it, -ti, --tty", &f.tty, "give the command a terminal of its own", ""},
		{"-v, --verbose", &f.verbose, "print notes and the verdict on stderr", ""},
	}
}

// runRows are the flags of run and wrap besides.
func (f *flags) runRows() []flagRow {
	return append(f.rows(),
		flagRow{"--ask PROGRAM", &f.ask, "ask PROGRAM, outside of the sandbox, about each connection that no rule of --net allow allows; nsrun help network has how it answers", ""},
		flagRow{"--ask-timeout DURATION", durationFlag{into: &f.askTimeout, least: time.Millisecond}, "how long such a connection waits (default 5s); then it is refused", ""},
		flagRow{"--verify", &f.verify, "check the system calls that make the sandbox against its plan before it starts", ""},
		flagRow{"-q, --quiet", &f.quiet, "print no notes; errors by which the command does not run are printed", ""},
		flagRow{"--result FILE|FD:n", &f.result, "write the result as one line of JSON", ""})
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
	pol, err := f.base()
	if err != nil {
		return policy.Policy{}, err
	}
	manifest := pol
	if pol, err = f.apply(pol); err != nil {
		return policy.Policy{}, err
	}
	f.asked, f.wished = manifest, pol
	if pol, err = f.normalize(pol); err != nil {
		return policy.Policy{}, err
	}
	if f.manifest != "" {
		pol.Notes = append(slices.Clip(pol.Notes), widened(manifest, pol)...)
	}
	if !pol.Bare() { // the ceiling does not permit that
		pol.Notes = slices.DeleteFunc(slices.Clone(pol.Notes), func(n policy.Note) bool { return n.Feature == switchNote })
	}
	return f.ownDir(pol), nil
}

// base is the manifest's policy, or the default one with the working directory read-only.
func (f *flags) base() (policy.Policy, error) {
	if f.manifest != "" {
		f.protected = append(f.protected, load.Real(f.manifest)...)
		return load.Spec(f.manifest)
	}
	pol := runner.DefaultPolicy()
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
	if reason := notGranted(cwd, pol.Home); reason != "" && f.chdir != "" {
		return pol, nil // it starts elsewhere
	} else if reason != "" {
		start := "/"
		if cwd == pol.Home {
			start, pol.Dir = "an empty one of its own", cwd
		}
		pol.Notes = append(pol.Notes, policy.Note{Feature: "working directory", Loss: cwd + " is " + reason + ", and is not shown; the command starts in " + start,
			Fix: "start in a directory of its own, or name what is needed with --ro or --workspace"})
		return pol, nil
	}
	if err := policy.CheckPath(cwd); err != nil {
		return pol, fmt.Errorf("the working directory cannot be shown: %w; rename it, or start in another one", err)
	}
	pol.Dir = cwd
	return pol.Grant(cwd, false, "working directory"), nil
}

// shows reports whether a flag shows dir.
func (f *flags) shows(dir string) bool {
	return slices.ContainsFunc(slices.Concat(f.ro, f.rw, f.forceRW), func(p string) bool {
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
	pol, rows, toolErr := tools.Add(pol, op, tools.Here())
	pol, err = policy.Normalize(pol, op)
	if err = errors.Join(toolErr, f.byFlag(err), f.byFlag(commands.Check(pol))); err == nil {
		f.protected = slices.Concat(f.protected, rows, ceilings)
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
