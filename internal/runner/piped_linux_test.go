package runner

import (
	"context"
	"io"
)

// piped is a command whose output is read from pipes.
type piped struct {
	*Running
	Stdout, Stderr *io.PipeReader
}

// start starts a command and returns its pipes. Those of output end when nobody can write to them any more.
func start(ctx context.Context, s *Session, argv []string, opts ExecOptions) (*piped, error) {
	p := &piped{}
	p.Stdout, opts.Stdout = pipeTo()
	if opts.Terminal == nil {
		p.Stderr, opts.Stderr = pipeTo()
	}
	var err error
	if p.Running, err = s.StartProcess(ctx, argv, opts); err != nil {
		return nil, err
	}
	return p, nil
}

func pipeTo() (*io.PipeReader, io.Writer) {
	r, w := io.Pipe()
	return r, w
}

// close closes what is ours of its pipes.
func (p *piped) close() {
	p.Stdin().Close()
	p.Stdout.Close()
	if p.Stderr != nil {
		p.Stderr.Close()
	}
}
