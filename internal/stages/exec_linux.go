package stages

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// exec appends the calls that execute the command.
func (l *Lowering) exec() error {
	l.execAt = l.Program.Len() // a request's calls from here on follow those that all commands share: see LowerRequest
	if l.plan.Bwrap != nil {
		return l.compatExec()
	}
	return l.execAs(l.plan.Command[0], l.plan.Command, l.plan.Env, sys.List(l.plan.Env))
}

const (
	// maxPathEntries is how many directories PATH may have: a call can skip at most 32767 others (sys.Call.Tolerate), and each directory
	// takes up to six.
	maxPathEntries = 1000
	// maxLists bounds the bytes that execAs writes again for each directory, so that the rest of a request has room beside them.
	maxLists = sys.MaxRequest * 3 / 4
)

// copied returns how many bytes execAs writes for n directories: the pointers to the arguments, counted at 16 bytes (the size of a Go
// string), and the name.
func copied(n int, name string, argv []string) int { return n * (16*(len(argv)+1) + len(name)) }

// execAs executes the program called name. It tries the directories of PATH in order, as execvp(3) does: it skips a directory without the
// program, remembers a file that may not be executed, and has /bin/sh run a file without a header. Its last calls are failures, which
// distinguish a command that is not found, one that cannot be executed, and one whose interpreter is missing.
func (l *Lowering) execAs(name string, argv, environ []string, env sys.Arg) error {
	candidates := Candidates(name, environ)
	words := sys.List(argv)
	n := len(candidates)
	if n > maxPathEntries {
		return &fault.Error{Stage: "command", Op: "look for", Path: name, Err: fmt.Errorf("PATH has %d places; %d are the most", n, maxPathEntries),
			Hint: "shorten PATH, or give the program's path"}
	}
	sh, paths, shells := sys.Str("/bin/sh"), make([]sys.Arg, n), make([]sys.Arg, n)
	for i, c := range candidates {
		paths[i], shells[i] = sys.Str(c), sys.List(append([]string{"/bin/sh", c}, argv[1:]...)) // as glibc calls it
	}
	// The calls, in order: n times execve and its /bin/sh; n times faccessat and its failure; "not found"; the execs a second time,
	// where the search goes on after an EACCES; and "permission denied".
	// again is the index of the second round's first call.
	again := 4*n + 1
	if l.plan.Bwrap != nil { // no faccessat: the caller's seccomp filter may kill the process that calls it
		again = 2*n + 1
	}
	// In the first round an EACCES continues in the second round, which denied selects. There the search ends with EACCES, not ENOENT.
	execs := func(denied bool) {
		for i, c := range candidates {
			l.Program.At(sys.Step{Stage: "exec", Op: name, Path: c})
			toNext := again + 1 // the next candidate of the second round
			if denied {
				toNext = 1
			}
			// ENOEXEC goes on with the next call, /bin/sh. The other errors skip that call.
			l.Program.Add(unix.SYS_EXECVE, paths[i], words, env).Tolerate(unix.ENOEXEC, 0).
				Tolerate(unix.ENOENT, 1).Tolerate(unix.ENOTDIR, 1).Tolerate(unix.EACCES, toNext)
			l.Program.At(sys.Step{Stage: "exec", Op: NoHeader, Path: c})
			l.Program.Add(unix.SYS_EXECVE, sh, shells[i], env)
		}
	}
	execs(false)
	for i, c := range candidates {
		if l.plan.Bwrap != nil {
			break
		}
		// A file that exists although execve returned ENOENT has no interpreter.
		l.Program.At(sys.Step{Stage: "exec", Op: MissingInterpreter, Path: c})
		l.Program.Add(unix.SYS_FACCESSAT, sys.AtCWD(), paths[i], sys.Words(unix.F_OK, "F_OK")).
			Tolerate(unix.ENOENT, 1).Tolerate(unix.ENOTDIR, 1).Tolerate(unix.EACCES, 1)
		l.Program.Fail(unix.ENOENT)
	}
	l.Program.At(sys.Step{Stage: "exec", Op: name})
	l.Program.Fail(unix.ENOENT)
	execs(true)
	l.Program.At(sys.Step{Stage: "exec", Op: name})
	l.Program.Fail(unix.EACCES)
	return nil
}

// Steps of exec that only unusual programs reach: one whose #! line or ELF loader names a file that does not exist, and one without
// a header, which /bin/sh runs.
const (
	MissingInterpreter = "interpreter"
	NoHeader           = "/bin/sh"
)

// Candidates returns the paths that execvp(3) tries for name.
func Candidates(name string, environ []string) []string {
	switch {
	case name == "":
		return nil
	case strings.Contains(name, "/"):
		return []string{name}
	}
	var out []string
	for _, dir := range strings.Split(searched(environ), ":") {
		if dir == "" {
			dir = "." // execvp(3): an empty name is the working directory
		}
		out = append(out, dir+"/"+name)
	}
	return out
}

// countPathEntries returns the number of candidates without building them.
func countPathEntries(name string, environ []string) int {
	if strings.Contains(name, "/") {
		return 1
	}
	return strings.Count(searched(environ), ":") + 1
}

// searched returns the directories to search: the value of PATH in environ, or the default.
func searched(environ []string) string {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			return value
		}
	}
	return "/bin:/usr/bin" // execvp(3), when PATH is unset
}
