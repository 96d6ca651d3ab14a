package nsrun

import (
	"context"
	"os"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/result"
)

// Init must be the first call of main, and of TestMain, in every program that opens sessions or runs commands: this package starts the
// program's own binary again, as the process that forks sandboxes, and there Init does not return. What the program's packages do when
// they are initialised is done there too. [Shutdown] ends that process.
func Init() { runner.Init() }

// Shutdown ends the process that this package has started to fork sandboxes, and returns when it has ended and was waited for. A program
// calls it last, when its sessions are closed; those that are still open end, too. Without it the process ends right after the program, as a
// zombie that only init can reap, which in a container may be nobody. A session that is opened later starts another one.
func Shutdown() { runner.Shutdown() }

// Session is a sandbox that is built once and runs any number of commands, at the same time too. They share its files, its /tmp and its
// network; each is confined like a command of its own, and, where there is Landlock, can neither see, trace nor (ABI 6, Linux 6.12) signal
// what another one has started. Its methods may be called at the same time.
type Session struct {
	session *runner.Session
	policy  Policy
}

// Open makes a sandbox. ctx bounds the making alone: what is made too late is thrown away, for which Open waits a second at the most. The
// sandbox ends with [Session.Close], or with this process, however that ends.
//
// An error is a [*PolicyCompatibilityError] if this host cannot enforce the policy, or an [*Error] with the step that failed.
func Open(ctx context.Context, p Policy) (*Session, error) {
	s, err := runner.Open(ctx, p.Spec(), p.protected...)
	if err != nil {
		return nil, err
	}
	return &Session{s, p}, nil
}

// Policy returns the policy that the session was opened with.
func (s *Session) Policy() Policy { return s.policy }

// Receipt returns what is on in the session: what the results of its commands say as well.
func (s *Session) Receipt() result.Receipt { return s.session.Receipt() }

// WorkingDir returns where commands start, a path inside.
func (s *Session) WorkingDir() string { return s.session.WorkingDir() }

// Alive reports whether commands can be run.
func (s *Session) Alive() bool { return s.session.Alive() }

// Done is closed when the sandbox has ended, and nothing of it is alive.
func (s *Session) Done() <-chan struct{} { return s.session.Done() }

// ProtectedChanged lists what makes a program of the host run something, and was made or changed while the session was open, by its commands or by
// anybody else. There are at most 100. It is empty until the session has ended: see [Session.Done]. Nothing is put back, whatever the policy says.
func (s *Session) ProtectedChanged() []result.ProtectedChange { return s.session.ProtectedChanged() }

// Close ends all that runs in the session and returns when nothing of it is alive and all pipes are closed. Commands that were running
// come back with the verdict "interrupted". To close twice is no error. A sandbox that is being made meanwhile, as for Cmd.Fresh, is waited for
// no longer than a second: it ends as soon as it is made.
func (s *Session) Close() error { return s.session.Close() }

// Command returns a command to run in the session. When ctx ends, the command is ended: see [Cmd].
func (s *Session) Command(ctx context.Context, name string, args ...string) *Cmd {
	return command(ctx, s.session.Exec, name, args)
}

// Pool keeps sandboxes of one policy ready, and hands each out once: for commands that must not find anything that another one has left.
type Pool struct {
	pool   *runner.Pool
	policy Policy
}

// NewPool builds n sandboxes, and builds another one whenever one is handed out. It returns when the first is ready, or with the error that
// kept it from being built.
func NewPool(p Policy, n int) (*Pool, error) {
	pool, err := runner.NewPool(p.Spec(), n, p.protected...)
	if err != nil {
		return nil, err
	}
	return &Pool{pool, p}, nil
}

// Get hands out a session, which the caller closes. If none is ready it builds one.
func (p *Pool) Get(ctx context.Context) (*Session, error) {
	s, err := p.pool.Get(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{s, p.policy}, nil
}

// Close closes the sessions that were not handed out, and returns when nothing of them is alive.
func (p *Pool) Close() error { return p.pool.Close() }

// Access is what a host path is wanted for.
type Access int

const (
	ForReading Access = iota // it must exist
	ForWriting               // it must be writable inside; it need not exist, and neither need the directories on the way to it
)

// HostPath is a path inside as the host has it.
type HostPath struct {
	// Path is absolute, and without a symlink when it was resolved. A program in the sandbox may change that at any time: a program that reads
	// or writes there while commands run uses [HostPath.Open] instead.
	Path string

	path *runner.HostPath
}

// ResolvePath translates a path inside, absolute or below the working directory, into one of the host. A path that leads out of what
// was granted, also by a link, that only the sandbox has, as in /tmp and /proc, or that is read-only inside and wanted for writing, is a
// [*RefusedError]. One that does not exist is such an error as well, and is [os.ErrNotExist].
//
// Links are followed as long as they stay where they are granted; absolute ones are refused, since inside they may lead elsewhere.
func (s *Session) ResolvePath(name string, access Access) (*HostPath, error) {
	h, err := s.session.ResolvePath(name, runner.Access(access))
	if err != nil {
		return nil, err
	}
	return &HostPath{h.Path, h}, nil
}

// Open opens the file, or directory, below a descriptor of what was granted, and follows no link at all: one that was put there since is an
// error. So is anything but a regular file or a directory, which could keep this process waiting, and a flag to write with where the path was
// resolved for reading. Flags are those of [os.OpenFile].
func (h *HostPath) Open(flag int, mode os.FileMode) (*os.File, error) { return h.path.Open(flag, mode) }
