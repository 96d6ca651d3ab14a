package bwrap

import (
	"fmt"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// Version is the version of bubblewrap that this package behaves as.
const Version = "0.13.1"

// Caller is what a command line is read against: the world outside, injected.
type Caller struct {
	// Argv0 is the name in the usage line.
	Argv0 string
	// Environ is the caller's environment as NAME=value strings.
	Environ []string
	// UID and GID are the real ids.
	UID, GID     int
	EffectiveUID int
	// Caps is the permitted and effective set, one bit for each capability.
	Caps uint64
	// Cwd lists the names of the working directory to be tried, as get_current_dir_name(3) would give them; empty if unknown.
	Cwd []string
	// Terminal is the name of the terminal at descriptor 1, or empty.
	Terminal string
	// ReadFD reads a descriptor to its end and closes it. The text of its error is shown as it is, so it had best be strerror(3)'s.
	ReadFD func(fd int) ([]byte, error)
	// Late reports whether what a descriptor holds for a file may come only once the sandbox is being made, as by a pipe. It is then left
	// to be read while the mounts are made. nil is for none.
	Late func(fd int) bool
	// Labels checks an SELinux context. nil says that there is no SELinux here.
	Labels func(label string) error
	// Warn is called with each warning, a complete line, in order, while the command line is read. nil drops them.
	Warn func(text string)
}

// Exit is an end without a sandbox: --help, --version, and every refusal.
type Exit struct {
	Code   int
	Stdout string
	Stderr string // complete lines
}

// Error returns what was printed on standard error, or says that nothing went wrong.
func (e *Exit) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Stderr[:len(e.Stderr)-1]
}

// Parse reads a command line, without argv[0], and plans it for a host with facts f. The error is always an [*Exit].
//
// Descriptors are read through c.ReadFD: those of --args and --add-seccomp-fd when their option is met, the others once all is
// found to be in order.
func Parse(args []string, c Caller, f facts.Facts) (*plan.Plan, error) {
	if len(args) == 1 && args[0] == "--version" {
		return nil, versionExit() // before anything that could fail: builds ask for it
	}
	p := newParser(c, f)
	if err := p.privileges(); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, p.usage(false)
	}
	command, err := p.commandLine(args)
	if err != nil {
		return nil, err
	}
	if err := p.validate(command); err != nil {
		return nil, err
	}
	if err := p.readData(); err != nil {
		return nil, err
	}
	return p.plan(command), nil
}

func versionExit() *Exit { return &Exit{Stdout: "bubblewrap " + Version + "\n"} }
