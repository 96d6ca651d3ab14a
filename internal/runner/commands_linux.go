package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// CheckCommand checks a command line by the command rules of a policy: see [commands.Decision]. Dir is where the command starts, a path inside, and
// empty for the policy's. A policy without command rules accepts everything.
//
// A file argument must resolve inside the policy's workspace, or the directory that its commands start in, as these are on the host now. A
// program is only accepted if no sandbox of the policy can write where it is looked for, and it is not looked for in the workspace. Under the
// built-in rules passive the policy itself may set no hook (see [policy.Hook]) but those that the rule sets anew, and PATH and its like.
func CheckCommand(p policy.Policy, dir string, argv []string) (commands.Decision, error) {
	if p.Commands == "" {
		return commands.Decision{Accepted: true}, nil
	}
	set, err := commands.Find(p.Commands, p.CommandRules)
	if err != nil {
		return commands.Decision{}, &policy.Fault{Field: "commands", Text: err.Error(), Fix: "name some that nsrun commands list prints"}
	}
	if dir == "" {
		dir = startDir(p)
	}
	d := set.Check(argv, resolver(p, dir))
	if !d.Accepted {
		return d, nil
	}
	refuse := func(index int, reason, try string) (commands.Decision, error) {
		return commands.Decision{Commands: p.Commands, Rule: d.Rule, Index: index, Word: argv[index], Reason: reason, Try: try}, nil
	}
	if why := looseProgram(p, argv); why != "" {
		return refuse(0, why, "have PATH name directories that are read-only inside, and not in the workspace")
	}
	if why := replaced(p); why != "" {
		return refuse(0, why, "show it elsewhere, or use command rules of your own")
	}
	if found, r := higher(p, set, d); found != "" {
		return refuse(len(argv)-1, found+" is there, above the workspace, and "+r.Why, cmp.Or(r.Try, "do not show what is above the workspace"))
	}
	if name, why := hooked(p, d.Env); name != "" {
		return refuse(0, fmt.Sprintf("the policy sets or passes %s: %s", name, why), "leave "+name+" out of the policy, or use command rules of your own")
	}
	if why := oldPython(p, argv, d); why != "" {
		return refuse(1, why, "python3 -I -m py_compile FILE")
	}
	return d, nil
}

// oldPython says why a Python does not heed the variable that keeps it from looking for modules in the working directory: runpy.py, which reads
// -m, is one. Only one whose name tells no version is taken for a new one.
func oldPython(p policy.Policy, argv []string, d commands.Decision) string {
	if p.Commands == commands.Full || len(argv) < 2 || argv[1] != "-m" || !slices.Contains(d.Env, "PYTHONSAFEPATH=1") {
		return ""
	}
	names := []string{argv[0]}
	if !strings.Contains(argv[0], "/") {
		names = nil
		for dir := range strings.SplitSeq(searchPath(p), ":") {
			names = append(names, path.Join(dir, argv[0]))
		}
	}
	for _, name := range names {
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue
		}
		minor := 0
		_, version, _ := strings.Cut(path.Base(real), "python3.") // platform-python3.6, too
		if n, _ := fmt.Sscan(strings.TrimRight(version, "abcdefghijklmnopqrstuvwxyz"), &minor); n == 1 && minor < 11 {
			return fmt.Sprintf("%s is older than Python 3.11, and would run modules of the working directory", real)
		}
		return ""
	}
	return ""
}

// refused makes an error of a decision that is no.
func refused(d commands.Decision) error {
	fix := "accepted: " + d.Try
	if strings.ContainsAny(d.Word, " \t\n") && d.Index == 0 {
		fix = "give the program and each of its arguments as a word of its own"
	}
	return &policy.Fault{Field: "args", Text: d.Text(), Fix: fix}
}

// Admit looks at the host for what a plan has to know of a request's policy: the FIFOs that it would let be written into, the places
// that it has to keep read-only, and which rule of its command rules accept the command. An error is a [*RefusedError], or an [*Error] of a look that failed. There is no command to check
// for a session: its commands are checked one by one.
func Admit(req plan.Request) (plan.Request, error) {
	with, err := withKept(req.Policy)
	if err != nil {
		return req, err
	}
	req.Policy = with
	if req.Private == (plan.PrivatePlace{}) {
		req.Private = PrivatePlace(req.Policy)
	}
	pipes, err := pipesOf(req.Policy)
	if err != nil {
		return req, err
	}
	req.Pipes = pipes
	if req.Kept == nil {
		guard := watchFor(req.Policy)
		req.Kept = keptBy(guard, req.Policy)
		guard.Close()
	}
	if req.Policy.Commands == "" || req.Session {
		return req, nil
	}
	d, err := CheckCommand(req.Policy, "", req.Command)
	switch {
	case err != nil:
		return req, err
	case !d.Accepted:
		return req, refused(d)
	}
	req.Rule, req.RuleEnv = d.Rule, d.Env
	return req, nil
}

func startDir(p policy.Policy) string {
	if p.Dir == "" {
		return "/"
	}
	return p.Dir
}

// workspace is a place inside, and what of the host is shown there.
type workspace struct{ inside, host string }

// workspaces are the policy's workspace, and where its commands start if that is granted.
func workspaces(p policy.Policy) (all []workspace) {
	dir, bare := startDir(p), p.Bare()
	if bare && dir != "/" {
		all = append(all, workspace{dir, dir})
	}
	for _, e := range p.FS {
		switch {
		case e.Kind != policy.Bind || e.System || e.Dest == p.Home:
		case e.Directory:
			all = append(all, workspace{e.Dest, e.Source})
		case policy.Inside(dir, e.Dest) && !bare:
			all = append(all, workspace{dir, path.Clean(e.Source + strings.TrimPrefix(dir, e.Dest))})
		}
	}
	return all
}

// resolver answers for paths that a command in dir would be given.
func resolver(p policy.Policy, dir string) commands.Resolver {
	all := workspaces(p)
	return func(name string) (bool, error) {
		if !path.IsAbs(name) {
			name = dir + "/" + name
		}
		for _, w := range all {
			rest, ok := strings.CutPrefix(name, w.inside)
			if !ok || rest != "" && rest[0] != '/' {
				continue
			}
			inside, err := leads(w.host, "./"+rest)
			if inside || err != nil && !errors.Is(err, fs.ErrNotExist) {
				return inside, err
			}
		}
		return false, nil
	}
}

// leads says whether a name leads to a place below a directory of the host: found by the kernel, below a descriptor of it. What is not there is
// inside if the way to it does not leave.
func leads(dir, name string) (inside bool, err error) {
	root, err := openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY})
	if err != nil {
		return false, err
	}
	defer unix.Close(root)
	fd, err := openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	switch {
	case err == nil:
		unix.Close(fd)
		return true, nil
	case errors.Is(err, unix.EXDEV):
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return true, err
	}
	return false, err
}

// checkCommand checks a command of a session by the policy's command rules, and returns what the rule sets. A request cannot set a hook (see [policy.Hook]),
// by which it could choose another program, or other files for it to be told by, than the rules have checked; under the built-in rules passive
// it can set nothing but [policy.PlainEnv].
func (s *Session) checkCommand(argv []string, dir string, asked []string) ([]string, error) {
	if s.asked.Commands == "" {
		return nil, nil
	}
	p := s.asked
	if inside, _ := resolver(p, dir)("."); !inside && dir != s.plan.Dir {
		return nil, &policy.Fault{Field: "dir", Text: fmt.Sprintf("%s is outside of the workspace, which the command rules %s keep commands in", dir, p.Commands), Fix: "start it in the workspace"}
	}
	d, err := CheckCommand(p, dir, argv)
	switch {
	case err != nil:
		return nil, err
	case !d.Accepted:
		return nil, refused(d)
	}
	for _, v := range asked {
		name, value, _ := strings.Cut(v, "=")
		why, hook := policy.Hook(name)
		fix := "set it in the policy, or leave it out"
		switch passive := p.Commands == commands.Passive; {
		case hook && passive:
			fix = "leave it out, or use command rules of your own"
		case !hook && passive && !policy.PlainName(name):
			why = "it takes from requests only " + strings.Join(policy.PlainEnv, ", ")
		case passive && policy.NamesFile(name, value):
			why, fix = "the C library would read the file that it names", "name a locale or time zone of the system's"
		case !hook:
			continue
		}
		return nil, &policy.Fault{Field: "env", Text: fmt.Sprintf("%s cannot be set under the command rules %s: %s", name, p.Commands, why), Fix: fix}
	}
	return d.Env, nil
}
