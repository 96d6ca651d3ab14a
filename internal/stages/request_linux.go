package stages

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Command is a command for a server to start.
type Command struct {
	Args []string
	Env  []string // all of it
	Dir  string   // a path in the sandbox
	// Files are the standard descriptors. With a terminal they are nil.
	Files [3]*os.File
	// Terminal, if not nil, gives the command its own terminal of this size.
	Terminal *unix.Winsize
	// Explain has what is refused to the command reported, if the sandbox's plan explains, and All also looking, if the plan does.
	Explain, All bool
}

// TooBig reports whether a command is too large for every kernel, which takes 6 MiB with the pointers (bprm_stack_limits in fs/exec.c), or
// has too many directories in PATH for its arguments: see maxLists.
func (c *Command) TooBig() bool {
	size := 0
	for _, words := range [][]string{c.Args, c.Env} {
		for _, w := range words {
			size += len(w) + 1 + 8
		}
	}
	return size > 6<<20 || copied(countPathEntries(c.Args[0], c.Env), c.Args[0], c.Args) > maxLists
}

// Request is the part of a command's program that its server does not know.
type Request struct {
	Program *sys.Program
	Plan    *plan.Plan // of the server, with this command
	Cut     int        // how many of the calls come before those that all commands share; the others, exec's, come after them
	command Command
}

// LowerRequest returns the request for a command.
func LowerRequest(p *plan.Plan, c Command) (*Request, error) {
	own := *p
	own.Command, own.Env, own.Dir = c.Args, c.Env, c.Dir
	l := New(&own, nil, FDs{}, true)
	l.request = c
	l.Program.ForRequests()
	err := l.Append(verify.Confinement[:], verify.Request)
	return &Request{l.Program, &own, l.execAt, c}, err
}

// enterUsers enters the user namespace that commandUsers has made for all commands.
func (l *Lowering) enterUsers() error {
	if !l.plan.Bare() {
		l.step("identity", "enter the command's user namespace")
		l.Program.Add(unix.SYS_SETNS, sys.Of(sys.SlotUsers), sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	}
	return nil
}

// files sets the command's standard descriptors: the request's files, or a terminal.
func (l *Lowering) files() error {
	if l.request.Terminal == nil {
		return l.takeFiles(l.request.Files)
	}
	l.takeTerminal(l.request.Terminal)
	return nil
}

// takeTerminal makes the terminal that the supervisor has opened the controlling terminal and the standard descriptors. It comes after the
// stage session: only a session leader may take a controlling terminal (ioctl_tty(2)).
func (l *Lowering) takeTerminal(size *unix.Winsize) {
	l.step("terminal", "take")
	l.Program.Add(unix.SYS_IOCTL, sys.Of(sys.SlotTerminal), sys.Words(unix.TIOCSCTTY, "TIOCSCTTY"), sys.Int(0))
	l.resizeTerminal(sys.SlotTerminal, size)
	for fd := range 3 {
		l.Program.Add(unix.SYS_DUP3, sys.Of(sys.SlotTerminal), sys.Int(fd), sys.Int(0))
	}
}

// takeFiles makes the request's files the standard descriptors. It replaces the host's /dev/null by the sandbox's: see ownNull.
func (l *Lowering) takeFiles(files [3]*os.File) error {
	l.step("descriptors", "standard")
	modes, err := fileNulls(files)
	if err != nil {
		return err
	}
	for fd, mode := range modes {
		slot := sys.SlotIn + sys.Slot(fd)
		if mode >= 0 && hasDev(l.plan) {
			l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/dev/null"), sys.Int(mode)).Keep(slot)
		}
		l.Program.Add(unix.SYS_DUP3, sys.Of(slot), sys.Int(fd), sys.Int(0))
	}
	return nil
}

// fileNulls returns the access mode of each file that is the host's /dev/null, and -1 for one that is not. It refuses directories.
func fileNulls(files [3]*os.File) (modes [3]int, err error) {
	for fd, f := range files {
		st, flags, err := statFile(f)
		modes[fd] = -1
		switch {
		case err != nil:
			return modes, &fault.Error{Stage: "descriptors", Op: f.Name(), Err: err}
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return modes, &fault.Error{Stage: "descriptors", Op: f.Name(), Err: errors.New("a directory of the host, through which all of it could be reached"),
				Hint: "give a file, a pipe or nothing"}
		case IsNull(st):
			modes[fd] = flags & unix.O_ACCMODE
		}
	}
	return modes, nil
}

// statFile stats f and leaves it in Go's poller; f.Fd would take it out.
func statFile(f *os.File) (st unix.Stat_t, flags int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return st, 0, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { st, flags, failed = statFD(fd) })
	return st, flags, errors.Join(err, failed)
}

// statFD returns the stat and the open flags of a descriptor.
func statFD(fd uintptr) (st unix.Stat_t, flags int, err error) {
	if err := unix.Fstat(int(fd), &st); err != nil {
		return st, 0, os.NewSyscallError("fstat", err)
	}
	flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0)
	return st, flags, os.NewSyscallError("fcntl", err)
}

// IsNull reports whether a file is /dev/null, which is device 1:3 (null(4)).
func IsNull(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

// hasDev reports whether the plan mounts its own device nodes at /dev.
func hasDev(p *plan.Plan) bool { return DevOf(p) == "/dev" }

// DevOf returns the directory where the plan mounts its own device nodes, or "".
func DevOf(p *plan.Plan) string {
	for _, op := range p.Mounts {
		if op.Kind == mounts.Dev {
			return op.Dest
		}
	}
	return ""
}
