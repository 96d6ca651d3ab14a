package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/spawner"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// Run runs one command in a sandbox of its own, and returns when nothing of that is alive. Results and errors are those of [Session.Exec],
// and a [*plan.CompatibilityError] if this host cannot enforce the policy. Backends that cannot open sessions are used as well, where the
// policy says so.
func Run(ctx context.Context, p policy.Policy, argv []string, opts *ExecOptions, protected ...string) (*ExecResult, error) {
	if !initialised.Load() {
		return nil, ErrNoInit
	}
	if opts == nil {
		opts = &ExecOptions{}
	}
	s, rec, err := newSession(p, protected, opts.Labels...)
	if err != nil {
		return nil, err
	}
	guard := watchFor(s.spec)
	defer guard.Close()
	result, err := s.once(ctx, argv, opts, rec, keptBy(guard, s.spec))
	if result != nil {
		compared(guard, &result.Result)
		result.Receipt.Notes = slices.Concat(result.Receipt.Notes, s.private.notes(), largeHome(s.spec))
	}
	return rec.conclude(argv, result, err, ctx.Err() != nil)
}

// once is Run in a session that is not open yet.
func (s *Session) once(ctx context.Context, argv []string, opts *ExecOptions, rec *record, kept []plan.Kept) (*ExecResult, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	command := argv
	if len(argv) == 0 || argv[0] == "" { // planned for all the same; the session says what is wrong
		command = []string{"true"}
	}
	var err error
	if s.releaseHome, err = useKept(s.spec); err != nil {
		return nil, err
	}
	defer func() { s.finish() }()
	var result *ExecResult
	spec := s.spec
	spec.Commands = "" // the session asks it, with the directory that the command is to start in
	_, err = attempt(plan.Request{Policy: spec, Environ: os.Environ(), Command: command, Terminal: opts.Terminal != nil, Kept: kept}, func(pl *plan.Plan) (err error) {
		s.plan = pl
		if !pl.Serves() {
			if err = s.private.renew(pl); err == nil {
				result, err = s.runApart(ctx, argv, opts, rec)
			}
			return err
		}
		s.sandbox, err = within(ctx, func() (*backend.Sandbox, error) { return s.makeSandbox(pl) }, s.discard)
		return err
	})
	if err != nil || s.sandbox == nil {
		return result, err
	}
	s.adopt(s.sandbox)
	defer s.Close()
	once := *opts
	once.Fresh = false // it is
	return s.exec(ctx, argv, &once, rec)
}

// runApart runs the one command of a plan whose backend opens no sessions, in a process of its own: see [spawner.RunnerName].
func (s *Session) runApart(ctx context.Context, argv []string, opts *ExecOptions, rec *record) (*ExecResult, error) {
	command, limit, err := s.ask(argv, opts, rec)
	if err != nil {
		return nil, err
	}
	pl := *s.plan
	pl.Command, pl.Env, pl.Dir, pl.Timeout = command.Args, command.Env, command.Dir, plan.Duration(limit)
	streams, err := openStreams(opts, nil) // the runner counts
	if err != nil {
		return nil, err
	}
	defer streams.closeOurs()
	socket, over, err := startRole(spawner.RunnerName, streams.theirs[:], os.Environ()...)
	streams.closeTheirs()
	if err != nil {
		return nil, err
	}
	defer func() { // the end of the socket is the runner's
		unix.Close(socket)
		<-over
	}()
	request := spawner.NewRequest(&pl, s.protected)
	if pl.Explain != nil {
		request.Home, _ = Home()
	}
	if err := wire.Send(socket, request); err != nil {
		return nil, &Error{Stage: "runner", Err: err}
	}
	streams.copy(nil)
	opts.running.begin(nil)
	stop := context.AfterFunc(ctx, func() { _ = unix.Shutdown(socket, unix.SHUT_WR) }) // the end of the run
	defer stop()
	var answer spawner.Answer
	_, err = wire.Receive(socket, &answer)
	opts.running.exit()
	streams.finish(0)
	if err != nil {
		return nil, &Error{Stage: "runner", Err: fmt.Errorf("it ended before the command did: %w", err)}
	}
	if answer.Failure != nil {
		return nil, errors.Join(context.Cause(ctx), answer.Failure)
	}
	if ctx.Err() != nil {
		answer.Outcome.Killed = unix.SIGKILL
	}
	result := &ExecResult{Result: ended(&pl, *answer.Outcome)}
	streams.collect(result, 0)
	return result, context.Cause(ctx)
}
