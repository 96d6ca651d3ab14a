package session

import (
	"bytes"
	"context"
	"slices"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/result"
)

// ended is how a command ended, and what was collected.
type ended struct {
	outcome
	*counts

	collected *[2][]byte // nil where output was not to be collected
	base64    bool       // asked for
}

// outcome is the result as the library gives it, its receipt only if that was asked for, but for how denials were found out.
type outcome struct {
	result.Result
	Receipt *result.Receipt   `json:"receipt,omitempty"`
	Explain *result.Explained `json:"explain,omitempty"`
}

// counts are how much the command has written, and whether that was collected whole.
type counts struct {
	StdoutBytes     int64 `json:"stdout_bytes"`
	StderrBytes     int64 `json:"stderr_bytes"`
	StdoutTruncated bool  `json:"stdout_truncated,omitempty"`
	StderrTruncated bool  `json:"stderr_truncated,omitempty"`
}

func endedOf(r result.Result, receipt bool) ended {
	e := ended{outcome: outcome{Result: r, Explain: r.Receipt.Explain}}
	if receipt {
		e.Receipt = &r.Receipt
	}
	return e
}

func (s *server) exec(c *call, req *request) (any, *Error) {
	opts := req.options()
	opts.MaxOutput, opts.Timeout, opts.Fresh = req.maxOutput, req.timeout, req.fresh
	if req.given["stdin"] {
		opts.Stdin = bytes.NewReader(req.stdin)
	}
	if req.stream {
		stdout, stderr := s.stream(c.ctx, c.id, "stdout", req), s.stream(c.ctx, c.id, "stderr", req)
		opts.Stdout, opts.Stderr = stdout, stderr
		defer stdout.Close()
		defer stderr.Close()
	} else if !s.reserve(c, req) {
		return nil, c.explain(nil, "")
	}
	argv := req.argv()
	r, err := c.sandbox.box.Exec(c.ctx, argv, &opts)
	s.keep(c, r)
	if err != nil && (r == nil || !ran(r.Verdict)) {
		return nil, c.explain(err, argv[0])
	}
	e := endedOf(r.Result, req.receipt)
	e.counts = &counts{StdoutTruncated: r.StdoutTruncated, StderrTruncated: r.StderrTruncated}
	if r.StdoutBytes != nil {
		e.counts.StdoutBytes = *r.StdoutBytes
	}
	if r.StderrBytes != nil { // a terminal has one stream
		e.counts.StderrBytes = *r.StderrBytes
	}
	if !req.stream {
		e.collected, e.base64 = &[2][]byte{uncut(r.Stdout, r.StdoutTruncated), uncut(r.Stderr, r.StderrTruncated)}, req.base64()
	}
	return e, nil
}

// stream is one whose events have an id, until ctx ends.
func (s *server) stream(ctx context.Context, id id, name string, req *request) *stream {
	return &stream{out: s.out, id: id, name: name, base64: req.base64(), stop: ctx.Done()}
}

// reserve waits until there is room for all that a command's answer may hold, and reports whether there was before the command was to end.
func (s *server) reserve(c *call, req *request) bool {
	most := req.maxOutput
	if most == 0 {
		most = runner.DefaultMaxOutput
	}
	if !s.collected.TryAcquire(2 * most) {
		close(c.lacksRoom) // a later answer may hold the room that this one waits for
		if s.collected.Acquire(c.ctx, 2*most) != nil {
			return false
		}
	}
	c.holds = 2 * most
	return true
}

// keep gives back what a command has not used of that, which most commands do not. The rest goes when the client takes the answer.
func (s *server) keep(c *call, r *runner.ExecResult) {
	var used int64
	if r != nil {
		used = int64(len(r.Stdout) + len(r.Stderr))
	}
	if used < c.holds {
		s.collected.Release(c.holds - used)
		c.holds = used
	}
}

// ran reports whether a verdict is that of a command that ran.
func ran(v result.Verdict) bool {
	return !slices.Contains([]result.Verdict{"", result.NotFound, result.NotExecutable, result.Setup, result.Refused}, v)
}

// uncut is output without the character in whose middle it was perhaps truncated.
func uncut(b []byte, truncated bool) []byte {
	if truncated {
		return b[:whole(b)]
	}
	return b
}
