package backend

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Error is a step that failed before the command ran.
type Error = fault.Error

// Exec outcomes, which have exit codes of their own.
var (
	ErrNotFound      = fault.ErrNotFound
	ErrNotExecutable = fault.ErrNotExecutable
)

// ErrEnd means that the command has run, or may have, but its exit status is lost. No process of it is left.
var ErrEnd = errors.New("how the command ended is not known")

// broken returns an error in the communication with the sandbox, which ends because of it. With begun the command may have run.
func broken(op string, err error, begun bool) error {
	if begun {
		err = unknownEnd(err)
	}
	return &Error{Stage: "wait", Op: op, Err: err}
}

// unknownEnd adds ErrEnd to an error.
func unknownEnd(why error) error { return fmt.Errorf("%w: %w", ErrEnd, why) }

// wrapLowering returns an error of lowering as one with a stage.
func wrapLowering(err error, p *plan.Plan) error {
	if step := (*Error)(nil); errors.As(err, &step) {
		return explain(step, p)
	}
	return explain(&Error{Stage: "prepare", Err: err}, p)
}

// failed returns the error of a step that failed with errno.
func failed(step sys.Step, errno syscall.Errno) *Error {
	return &Error{Stage: step.Stage, Index: step.Index, Op: step.Op, Path: step.Path, Err: errno}
}

// explainFailure returns the error of the failure that the child has reported.
func (r *run) explainFailure() error {
	e := r.lowered.Program.Failed(*r.failure)
	if r.released && int(r.failure.Index) >= r.lowered.Forked { // a call of pid 1 or the subreaper failed after the fork
		e.Err = unknownEnd(e.Err)
		return e
	}
	return explain(e, r.plan)
}

// explainExec returns the error of a failed exec: command not found, not executable, or without an interpreter.
func explainExec(e *Error, errno syscall.Errno, p *plan.Plan) error {
	command, op, at := p.Command[0], e.Op, e.Path
	e.Op, e.Path = "", ""
	switch {
	case op == stages.MissingInterpreter:
		e.Err = fmt.Errorf("%s: %w: its interpreter (the #! line or ELF loader) is missing: %w", at, ErrNotExecutable, errno)
		e.Hint = "show the interpreter to the sandbox, or call it by name"
	case errno == unix.ENOENT, errno == unix.EACCES && p.Bare() && nowhere(p):
		e.Err = fmt.Errorf("%s: %w: %w", command, ErrNotFound, errno)
		e.Hint = missingHint(command)
	case errno == unix.EACCES:
		e.Err = fmt.Errorf("%s: %w: %w", command, ErrNotExecutable, errno)
		e.Hint = "name a program, not a directory; make it executable (chmod +x); or move it out of a place mounted noexec, as /run is"
	case errno == unix.E2BIG:
		e.Err = fmt.Errorf("%s: %w: %w", command, ErrNotExecutable, errno)
		e.Hint = "pass less on the command line, or raise stack_mb if it is limited: arguments may take a quarter of the stack"
	default:
		e.Err = fmt.Errorf("%s: %w: %w", command, ErrNotExecutable, errno)
	}
	return e
}

// missingHint says what to do about a program that is not there: it may be no name of a program at all.
func missingHint(command string) string {
	switch {
	case strings.ContainsAny(command, " \t\n|&;<>$`"):
		return "give the program and each of its arguments as a word of its own, or have a shell read the line: sh -c 'LINE'"
	case slices.Contains(builtins, command):
		return "this is a word of shells; write sh -c 'LINE'"
	}
	return "give a path that the sandbox can see, or grant its directory with --ro"
}

// builtins are commands of POSIX shells of which systems have no program, or one without effect.
var builtins = strings.Fields(". : alias bg cd eval exec exit export fg hash jobs read readonly set shift source times trap type ulimit umask unset wait")

// nowhere reports whether no directory of PATH has the program of a plan whose command sees the host. execvp(3) answers EACCES then if the user may not
// search one of them, which says nothing of the program; shells answer that it is not found.
func nowhere(p *plan.Plan) bool {
	name := p.Command[0]
	for _, v := range p.Env {
		dirs, ok := strings.CutPrefix(v, "PATH=")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		return !slices.ContainsFunc(strings.Split(dirs, ":"), func(dir string) bool { return unix.Access(dir+"/"+name, unix.F_OK) == nil })
	}
	return false
}

// hint is advice for a step that failed with an errno.
type hint struct {
	stage, op string // empty matches any
	errno     syscall.Errno
	text      string
}

// The first hint that matches is used.
var hints = [...]hint{
	{"namespaces", "clone", unix.EPERM, "unprivileged user namespaces are refused here: run nsrun doctor to see by what"},
	{"namespaces", "clone", unix.ENOSPC, "raise user.max_user_namespaces and its like (sysctl user), or run fewer nested sandboxes"},
	{"namespaces", "clone", unix.EINVAL, "this kernel lacks a namespace: run nsrun doctor"},
	{"namespaces", "clone", unix.EAGAIN, "too many processes: raise the limit (ulimit -u)"},
	{"identity", "write", unix.EPERM, "an LSM restricts user namespaces: run nsrun doctor"},
	{"identity", "write", unix.EACCES, "AppArmor restricts unprivileged user namespaces: run nsrun doctor"},
	{"mount", "proc", unix.EPERM, "this container masks parts of /proc: start it with an unmasked /proc (podman: --security-opt unmask=ALL)"},
	{"root", "pivot", unix.EINVAL, "the root is an initramfs or not a mount point: switch_root to a real root first"},
	{"mount", "", unix.EPERM, "an LSM or a container's filter refuses mounts: run nsrun doctor"},
	{"mount", "", unix.ELOOP, linkHint},
	{"mount", "", unix.ENOENT, "the path disappeared since it was looked at; try again"},
	{"mount", "", unix.ENOSPC, "the limit on mounts is reached: raise fs.mount-max"},
	{"mount", "file", unix.EFBIG, "raise the limit on the size of files (RLIMIT_FSIZE, ulimit -f)"},
	{"mount", "file", unix.EPIPE, "a write was cut short: raise the limit on the size of files (RLIMIT_FSIZE, ulimit -f)"},
	{"limit", "", unix.EPERM, "the limit is above this session's hard limit (ulimit -H): ask for less"},
	{"landlock", "", unix.ELOOP, linkHint},
	{"landlock", "", unix.ENOTDIR, linkHint}, // a symlink, where the path is opened name by name
	{"directory", "chdir", unix.ENOENT, "choose a directory that the sandbox shows, with --chdir"},
	{"directory", "chdir", unix.EACCES, "choose a directory that this user may enter, with --chdir"},
	{"keyring", "", unix.EDQUOT, "the user's key quota is used up (/proc/key-users)"},
	{"identity", stages.NestedOp, unix.EROFS, nestedHint},
	{"identity", stages.NestedOp, unix.EACCES, nestedHint},
	{"identity", stages.NestedOp, unix.ENOENT, nestedHint},
	{"server", "serve", unix.EAGAIN, "too many processes: raise the limit (ulimit -u), or end what earlier commands have left running"},
	{"", "", unix.EMFILE, "raise the limit on open files (RLIMIT_NOFILE, ulimit -n): a sandbox needs some 30"},
	{"", "", unix.ENFILE, "raise the host's limit on open files (fs.file-max)"},
	{"seccomp", "", unix.EINVAL, "the kernel refuses the filter: check the raw program"},
}

const (
	linkHint   = "a symlink appeared on the path since it was looked at; try again"
	nestedHint = "/proc/sys cannot be written to here, so a filter must refuse user namespaces: leave out --seccomp off"
)

// explain adds advice to the error of a step.
func explain(e *Error, p *plan.Plan) error {
	var errno syscall.Errno
	switch {
	case !errors.As(e.Err, &errno):
		return e
	case e.Stage == "exec":
		return explainExec(e, errno, p)
	case e.Stage == stages.SelfTestStage && errno == stages.ActDone:
		e.Err, e.Hint = errors.New(succeededText), succeededHint
		return e
	case e.Stage == "directory" && e.Op == "chdir" && errno == unix.ENOENT && e.Path != "":
		if info, err := os.Stat(e.Path); err == nil && info.IsDir() {
			e.Hint = fmt.Sprintf("it is there on the host, and not shown: add --ro %[1]s, --rw %[1]s or --workspace %[1]s", e.Path)
		}
	}
	for _, h := range hints {
		if (h.stage == "" || h.stage == e.Stage) && (h.op == "" || h.op == e.Op) && h.errno == errno {
			e.Hint = cmp.Or(e.Hint, h.text)
			return e
		}
	}
	return e
}

// The texts of the error when an act of the self-test succeeds.
const (
	succeededText = "it succeeded: the sandbox does not hold, and nothing was started"
	succeededHint = "run nsrun doctor --self-test; if it says the same, this kernel does not enforce what it reports"
)
