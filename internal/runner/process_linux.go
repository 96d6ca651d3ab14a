package runner

import (
	"context"
	"slices"

	"github.com/nsrun/nsrun/nsrun/result"
)

// StartProcess starts a command and returns once it is being executed. No timeout of the policy's counts for it, but that of an operator's
// ceiling does. When ctx ends its whole tree is killed. Errors are those of [Session.Exec].
//
// Stdout and Stderr are [io.WriteCloser]s, which are closed when the process and whatever it has left have let go of the stream, or with the
// session. What is written to its standard input goes to [Running.Stdin].
//
// A limit output_bytes that was asked for holds for each stream: with the byte after it the stream ends, and the process is killed. The
// default one does not count here.
func (s *Session) StartProcess(ctx context.Context, argv []string, opts ExecOptions) (*Running, error) {
	r := NewRunning()
	opts.Unbounded, opts.linger = true, true
	if opts.Terminal == nil {
		stdin, ours, err := pipe()
		if err != nil {
			return nil, channels(err)
		}
		defer stdin.Close()
		opts.Stdin, r.input = stdin, ours
	}
	if err := r.Start(ctx, s.Exec, argv, opts, true); err != nil {
		if r.input != nil {
			r.input.Close()
		}
		return nil, err
	}
	return r, nil
}

// receiptFor is the session's, but for the default limit on output, which does not count where a command is unbounded.
func (s *Session) receiptFor(unbounded bool) result.Receipt {
	r := s.Receipt()
	if o := s.plan.Output; o != nil && o.Pipes && unbounded {
		r.Limits = slices.DeleteFunc(slices.Clone(r.Limits), func(l result.LimitReceipt) bool { return l.By == "pipe" })
	}
	return r
}
