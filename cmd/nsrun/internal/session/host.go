package session

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/result"
)

// Host makes sandboxes.
type Host interface {
	// Open makes the one that is asked for. An error about the policy is a [*policy.Fault] of [OfPolicy]; others are the
	// library's.
	Open(ctx context.Context, what Asked) (Sandbox, error)
	// Busy is called when more than one request is in flight.
	Busy()
}

// Asked is the policy that a client asks for: the path of a manifest, or an object like one and the directory that its relative paths start
// from, empty for the working directory.
type Asked struct {
	Manifest string
	Policy   json.RawMessage
	Dir      string
}

// Sandbox is a session of the library's: see [runner.Session].
type Sandbox interface {
	Exec(ctx context.Context, argv []string, opts *runner.ExecOptions) (*runner.ExecResult, error)
	// Start closes Stdout and Stderr when nobody can write to them any more.
	Start(ctx context.Context, argv []string, opts runner.ExecOptions) (Process, error)
	ResolvePath(path string, access runner.Access) (*runner.HostPath, error)
	WorkingDir() string
	Receipt() result.Receipt
	// Allow, SetAllow, Ask and OnRefused are about the network allow.
	Allow() []string
	SetAllow(rules []string) error
	Ask(wait time.Duration, answer func(runner.Question) runner.Answer) error
	OnRefused(f func(result.Denial))
	Alive() bool
	// ProtectedChanged is empty until the sandbox is closed: see [runner.Session].
	ProtectedChanged() []result.ProtectedChange
	Close() error
}

// Process is one that was started: see [runner.Running].
type Process interface {
	Stdin() io.WriteCloser
	Done() <-chan struct{}
	Wait() (*runner.ExecResult, error)
	Signal(sig os.Signal) error
	Resize(size runner.Size) error
	End() error
}
