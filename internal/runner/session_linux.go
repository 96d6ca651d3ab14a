package runner

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/watch"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// ErrClosed is what a closed session answers, and one whose sandbox has ended.
var ErrClosed = errors.New("the session is closed")

// Session is nsrun.Session, of a plan. Its methods may be called at the same time.
type Session struct {
	asked     policy.Policy
	spec      policy.Policy // the same, with the real paths of audit logs
	protected []string      // what no sandbox may write, by real path
	logs      []os.FileInfo // those, as they were
	plan      *plan.Plan
	done      chan struct{}
	finish    func() // closes done

	releaseHome func()  // ends the use of the home directory that is kept
	private     private // of the sandbox

	allowlist allowlist

	looking  sync.Mutex               // held to use the two below: a session can end while it is handed out
	guard    *watch.Watch             // of what makes the host run something; nil if nothing is to be compared
	finished bool                     // it was looked at for the last time
	changed  []result.ProtectedChange // what it has found, when done is closed

	renewing chan struct{} // holds a token: one at a time makes a new sandbox
	mu       sync.Mutex
	sandbox  *backend.Sandbox
	receipt  result.Receipt
	skipped  []plan.Note           // on places that are not compared
	expired  bool                  // the sandbox is to be replaced by a new one when the next command is started
	closed   bool                  // it is not
	held     map[*streams]struct{} // closed with the session
	reported backend.Evidence      // of the sandbox's cgroup, when a command had last failed
}

// hold has c closed with the session; if that is closed already, at once.
func (s *Session) hold(c *streams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.close()
		return
	}
	s.held[c] = struct{}{}
}

func (s *Session) release(c *streams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, c)
}

// Open makes a sandbox of a valid policy; protected lists files of the host, by real path, that it may not be able to write. ctx bounds the making alone: what is made too late is thrown away, for which Open waits a second at the most. The
// sandbox ends with [Session.Close], or with this process, however that ends.
//
// An error is a [*plan.CompatibilityError] if this host cannot enforce the policy, or an [*Error] with the step that failed.
func Open(ctx context.Context, p policy.Policy, protected ...string) (*Session, error) {
	if !initialised.Load() {
		return nil, ErrNoInit
	}
	return within(ctx, func() (*Session, error) { return open(p, protected) }, func(s *Session) { s.Close() })
}

// within waits for what build makes until ctx ends. What comes later is discarded, and waited for unless that takes long.
func within[T any](ctx context.Context, build func() (T, error), discard func(T)) (T, error) {
	type made struct {
		value T
		err   error
	}
	var none T
	if err := context.Cause(ctx); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return build()
	}
	result := make(chan made, 1)
	go func() {
		value, err := build()
		result <- made{value, err}
	}()
	select {
	case m := <-result:
		return m.value, m.err
	case <-ctx.Done():
	}
	if discard == nil {
		return none, context.Cause(ctx)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if m := <-result; m.err == nil {
			discard(m.value)
		}
	}()
	select {
	case <-gone:
	case <-time.After(killTimeout):
	}
	return none, context.Cause(ctx)
}

func open(p policy.Policy, protected []string) (*Session, error) {
	s, rec, err := newSession(p, protected) // each command has a record of its own; this finds whether there can be one
	if err != nil {
		return nil, err
	}
	s.logs, err = rec.files()
	rec.close()
	if err != nil {
		return nil, err
	}
	if s.releaseHome, err = useKept(s.spec); err != nil {
		return nil, err
	}
	s.watchBy(watchFor(s.looksOnly()))
	s.plan, err = attempt(plan.Request{Policy: s.spec, Environ: os.Environ(), Session: true, Kept: keptBy(s.guard, s.spec)}, func(pl *plan.Plan) (err error) {
		s.sandbox, err = s.makeSandbox(pl)
		return err
	})
	if err != nil {
		s.releaseHome()
		s.guard.Close()
		return nil, err
	}
	s.adopt(s.sandbox)
	return s, nil
}

// looksOnly is the session's policy where changes are reported, but not put back: a session can be open for hours, and most of what has changed
// then may be its user's own.
func (s *Session) looksOnly() policy.Policy {
	p := s.spec
	if p.Protect == policy.ProtectRevert {
		p.Protect = policy.ProtectReport
	}
	return p
}

// lookAgain has the session compare with what is there now: it is handed out only now. It reports false if the session has ended meanwhile.
func (s *Session) lookAgain() bool {
	now := watchFor(s.looksOnly())
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.finished {
		now.Close()
		return false
	}
	s.guard.Close()
	s.watchBy(now)
	return true
}

// watchBy has the session compare by w. What w cannot compare is in the receipt from now on: at the end, nobody may be there to read it.
func (s *Session) watchBy(w *watch.Watch) {
	s.guard = w
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = uncompared(w)
}

// compare finds what has changed. Nothing of the session is alive any more.
func (s *Session) compare() {
	s.looking.Lock()
	defer s.looking.Unlock()
	var end result.Result
	compared(s.guard, &end)
	s.finished = true
	s.changed = end.ProtectedChanged
}

// ProtectedChanged is that of nsrun.Session.
func (s *Session) ProtectedChanged() []result.ProtectedChange {
	select {
	case <-s.done:
		return s.changed
	default:
		return nil
	}
}

// newSession returns a session without a sandbox, and its policy's audit logs.
func newSession(p policy.Policy, protected []string, labels ...string) (*Session, *record, error) {
	rec, err := openRecord(p, labels...)
	if err != nil {
		return nil, nil, err
	}
	s := &Session{asked: p, spec: rec.real(p), protected: protected, done: make(chan struct{}), renewing: make(chan struct{}, 1), held: map[*streams]struct{}{}}
	s.releaseHome = func() {}
	s.finish = sync.OnceFunc(func() { s.private.remove(); s.compare(); s.releaseHome(); close(s.done) })
	s.renewing <- struct{}{}
	return s, rec, nil
}

// evidence is what has happened in the sandbox's cgroup since a command that has failed was started, as far as no other one was told of it: of
// several that run at the same time the first to fail is.
func (s *Session) evidence(sandbox *backend.Sandbox, before backend.Evidence) backend.Evidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sandbox != s.sandbox {
		return backend.Evidence{}
	}
	now := sandbox.Evidence()
	since := now.Since(before.Later(s.reported))
	s.reported = now
	return since
}

// adopt makes a sandbox the session's: the session ends with it.
func (s *Session) adopt(sandbox *backend.Sandbox) {
	s.sandbox, s.expired, s.reported = sandbox, false, backend.Evidence{}
	sandbox.Terminate = func() { s.terminate(sandbox) }
	s.receipt = receipt(s.plan, backend.Outcome{Resolved: sandbox.Info.Resolved, Rules: sandbox.Info.Rules, Tried: sandbox.Info.Tried})
	go func() {
		<-sandbox.Done()
		s.mu.Lock()
		last := s.sandbox == sandbox && (!s.expired || s.closed)
		s.closed = s.closed || last
		s.mu.Unlock()
		if last { // which takes a while: it looks at files
			s.finish()
		}
	}()
}

// expire ends a sandbox, and returns when nothing of it is left. Another one takes its place when the next command is started, unless the
// session is closed.
func (s *Session) expire(sandbox *backend.Sandbox) {
	s.terminate(sandbox)
	<-sandbox.Done()
}

// terminate is lapse, and does not wait.
func (s *Session) terminate(sandbox *backend.Sandbox) {
	s.mu.Lock()
	if s.sandbox == sandbox {
		s.expired = true
	}
	s.mu.Unlock()
	sandbox.Kill()
}

// hasExpired reports whether a sandbox was told to end, and no other has taken its place.
func (s *Session) hasExpired(sandbox *backend.Sandbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired && s.sandbox == sandbox
}

// current returns the sandbox that commands are started in.
func (s *Session) current() (sandbox *backend.Sandbox, expired bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, ErrClosed
	}
	if s.expired {
		return s.sandbox, true, nil
	}
	select {
	case <-s.sandbox.Done():
		return nil, false, ErrClosed
	default:
		return s.sandbox, false, nil
	}
}

// ready returns the sandbox that commands are started in, a new one if the last has lapsed.
func (s *Session) ready(ctx context.Context) (*backend.Sandbox, error) {
	sandbox, expired, err := s.current()
	if err != nil || !expired {
		return sandbox, err
	}
	return within(ctx, s.renew, nil) // what comes too late is the next command's
}

// renew makes a new sandbox in the place of one that has lapsed.
func (s *Session) renew() (*backend.Sandbox, error) {
	<-s.renewing
	defer func() { s.renewing <- struct{}{} }()
	sandbox, expired, err := s.current()
	if err != nil || !expired { // somebody was faster
		return sandbox, err
	}
	<-sandbox.Done()
	next, err := s.makeSandbox(s.plan)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.adopt(next)
	}
	s.mu.Unlock()
	if closed {
		s.discard(next)
		return nil, ErrClosed
	}
	return next, nil
}

// makeSandbox makes a sandbox with a private directory of its own, if the plan has one. That of the sandbox before is gone then.
func (s *Session) makeSandbox(pl *plan.Plan) (*backend.Sandbox, error) {
	if err := s.private.renew(pl); err != nil {
		return nil, err
	}
	sandbox, err := s.requestSandbox(pl)
	if err != nil {
		s.private.remove()
	}
	return sandbox, err
}

// discard ends a sandbox that came too late.
func (s *Session) discard(sandbox *backend.Sandbox) {
	sandbox.Kill()
	<-sandbox.Done()
	s.private.remove()
}

// Receipt returns what is on in the session: what the results of its commands say as well.
func (s *Session) Receipt() result.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.receipt
	r.Notes = slices.Concat(r.Notes, s.skipped)
	if r.Allow != nil {
		r.Allow = &result.AllowReceipt{Rules: s.Allow(), Step: r.Allow.Step}
	}
	return r
}

// WorkingDir returns where commands start, a path inside.
func (s *Session) WorkingDir() string { return s.plan.Dir }

// Alive reports whether commands can be run.
func (s *Session) Alive() bool {
	_, _, err := s.current()
	return err == nil
}

// Done is closed when the sandbox has ended, and nothing of it is alive.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close is that of nsrun.Session.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	sandbox := s.sandbox
	held := s.held
	s.held = map[*streams]struct{}{}
	s.mu.Unlock()
	sandbox.Kill()
	<-sandbox.Done()
	select { // somebody may be making a new sandbox, which is thrown away then
	case <-s.renewing:
		s.renewing <- struct{}{}
	case <-time.After(killTimeout):
	}
	s.finish()
	for c := range held {
		c.close()
		if c.lingers != nil {
			<-c.lingers.over // and its audit logs have been told so
		}
	}
	return nil
}

// start starts a command in the session's sandbox.
func (s *Session) start(ctx context.Context, c stages.Command) (*process, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		sandbox, err := s.ready(ctx)
		if err != nil {
			return nil, err
		}
		before := sandbox.Evidence()
		counts, _ := sandbox.Network().Counts() // an error comes again at the end
		handle, err := sandbox.Start(c, ctx.Done())
		var failed *Error
		switch {
		case err == nil:
			return &process{session: s, sandbox: sandbox, handle: handle, before: before, counts: counts}, nil
		case context.Cause(ctx) != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, backend.ErrSandboxEnded):
			<-sandbox.Done() // and if it has lapsed there is another one
			continue
		case errors.Is(err, backend.ErrLost):
			s.lost(sandbox)
			return nil, &Error{Stage: "server", Op: "start", Err: err, Hint: "the session was closed, or another command's Fresh or end has replaced its sandbox"}
		case errors.As(err, &failed) && failed.Stage == "directory":
			return nil, &policy.Fault{Field: "dir", Text: c.Dir + " cannot be entered: " + failed.Err.Error(), Fix: "choose a directory that the sandbox shows", Err: err}
		}
		return nil, err
	}
}
