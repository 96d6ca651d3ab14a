package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// helperStage is the stage of errors about the network helper.
const helperStage = "network helper"

// helperStart is how long the helper has until it is ready. It takes some milliseconds.
const helperStart = 30 * time.Second

// orderTime is how long a helper may take to read, before it gets no order.
const orderTime = time.Second

// helperEnd is how long the helper has to pass on what was sent last, and for its summary, once nobody is left who could connect.
const helperEnd = 2 * time.Second

// maxPrinted bounds what the helper can print, and maxSaid what is read of it.
const (
	maxPrinted = 16 << 10
	maxSaid    = 500
)

// HelperName is the program that serves the network of a plan with an allow-list. It is called by this name, whatever its file.
const HelperName = entry.AppendedName

// helper is the program that serves a sandbox's network. It is started before the sandbox, which it then is ready for when the sockets come.
type helper struct {
	start   netmessage.Start
	path    string
	socket  int
	printed *os.File // its standard error
	said    string   // the beginning of that, when it has ended
	process *child
	sockets []int // of start.Sockets, until they are sent
	served  bool  // they are
	ready   bool
	ended   bool // it can be heard no more
	err     error
	own     bool                                                // err is what the helper reported
	counts  *netmessage.Summary                                 // that were asked for, until somebody takes them
	heard   func(netmessage.Event, func(netmessage.Order) bool) // see [NetworkOptions]
	sending sync.Mutex                                          // held to send after the start, and to take the socket away
	summary *netmessage.Summary
}

// startHelper starts the helper of a plan, from a file, which gets a signal when the thread ends that has started it (PR_SET_PDEATHSIG, prctl(2)). It
// is nil where the plan needs none.
func startHelper(p *plan.Plan, path string, o NetworkOptions) (*helper, error) {
	if p.Allow == nil {
		return nil, nil
	}
	if path == "" {
		return nil, &Error{Stage: helperStage, Err: errors.New("nobody has said where it is")}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Stage: helperStage, Op: "socketpair", Err: err}
	}
	theirs := os.NewFile(uintptr(pair[1]), "helper")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, &Error{Stage: helperStage, Err: err}
	}
	defer null.Close()
	// Not the caller's terminal: the helper reads what an attacker has written, and could write to it, or read what is typed.
	printed, err := boundedFile(maxPrinted)
	if err != nil {
		unix.Close(pair[0])
		return nil, &Error{Stage: helperStage, Err: err}
	}
	h := &helper{socket: pair[0], path: path, printed: printed, heard: o.Heard, start: netmessage.Start{Rules: p.Allow.Rules, Ask: o.Ask, Caps: caps(p)}}
	if o.Rules != nil {
		h.start.Rules = o.Rules
	}
	// A session of its own, so that no signal of a terminal's reaches it: the command may go on after one.
	defer calm()()
	h.process, err = startChild(path, []string{HelperName}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=1"}, []*os.File{null, null, printed, theirs},
		syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL})
	if err != nil {
		unix.Close(pair[0])
		printed.Close()
		return nil, noHelper(path, err)
	}
	return h, nil
}

// caps are the plan's limits of its network.
func caps(p *plan.Plan) netmessage.Caps {
	l := p.AllowLimits()
	return netmessage.Caps{Connections: l.Connections, PerName: l.HostConnections, Bytes: l.HostBytes, Idle: l.IdleSeconds}
}

// HasHelper reports whether a program's file has the helper appended: see package entry.
func HasHelper(program string) bool {
	f, err := os.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	end := make([]byte, len(entry.AppendedMark)+entry.AppendedDigits+1)
	_, err = f.ReadAt(end, info.Size()-int64(len(end)))
	return err == nil && bytes.HasPrefix(end, []byte(entry.AppendedMark))
}

// LookForHelper returns the error that a run of a plan would have for want of its helper.
func LookForHelper(p *plan.Plan, path string) error {
	if p.Allow == nil {
		return nil
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return noHelper(path, err)
	}
	return nil
}

// calm gives this thread a timer slack of 2 ms, which a process inherits that it starts, until the function is called that it returns. The monitor thread of
// Go's runtime then sleeps so long instead of 20 us: package entry does the same for nsrun. The helper's main thread has the usual slack again.
func calm() (restore func()) {
	const slack = 2_000_000 // ns
	runtime.LockOSThread()
	was, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || was == 0 || was >= slack { // 0: of a real-time thread
		return runtime.UnlockOSThread
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0)
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(was), 0, 0, 0)
		runtime.UnlockOSThread()
	}
}

func noHelper(path string, err error) error {
	e := &Error{Stage: helperStage, Op: "start", Path: path, Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "install " + HelperName + " beside nsrun: CGO_ENABLED=0 go build ./cmd/" + HelperName + " in nsrun's source; or use a release of nsrun, which has it in its file if that can be read; or, in a Go program, import nsrun/network; or use --net none or host"
	}
	return e
}

// boundedFile is a file in memory of a size, which does not change: what is written behind it fails.
func boundedFile(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("nsrun", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "bounded")
	err = f.Truncate(size)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// take keeps a socket that the sandbox has sent. With the last one all go to the helper, and this process keeps none.
func (h *helper) take(kind string, fd int) error {
	if h.socket < 0 { // the helper is lost, and the sandbox is being killed for that
		unix.Close(fd)
		return nil
	}
	h.start.Sockets, h.sockets = append(h.start.Sockets, kind), append(h.sockets, fd)
	if kind != netmessage.DNS {
		return nil
	}
	h.served = true
	err := wire.Send(h.socket, h.start, h.sockets...)
	wire.CloseAll(h.sockets)
	h.sockets = nil
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) { // it has closed its side: unix(7)
		return h.failure()
	}
	if err != nil {
		return &Error{Stage: helperStage, Op: "send", Err: err}
	}
	return nil
}

// read reads one event.
func (h *helper) read(socket int) {
	buf := make([]byte, netmessage.MaxEvent)
	n, err := unix.Read(socket, buf)
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
		return
	}
	var event netmessage.Event
	if err == nil && n > 0 {
		if err = json.Unmarshal(buf[:n], &event); err != nil {
			err = fmt.Errorf("it sent something that is no event: %w", err)
		}
	}
	switch {
	case errors.Is(err, unix.ECONNRESET): // it has ended with what was sent unread: unix_release_sock
		h.ended = true
	case err != nil:
		h.ended, h.err = true, err
	case n == 0:
		h.ended = true
	case event.Error != "":
		h.ended, h.err, h.own = true, errors.New(Plain(event.Error)), true
	case event.Counts != nil:
		h.counts = event.Counts
	case event.Summary != nil:
		h.summary, h.ended = event.Summary, true
	case event.Ready:
		h.ready = true
	case h.heard != nil:
		h.heard(event, h.order)
	}
}

// order sends an order. It reports false if the helper takes none.
func (h *helper) order(o netmessage.Order) bool {
	data, err := json.Marshal(o)
	if err != nil || len(data) > netmessage.MaxEvent {
		return false
	}
	h.sending.Lock()
	defer h.sending.Unlock()
	for h.socket >= 0 {
		switch err := unix.Sendto(h.socket, data, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil); {
		case err == nil:
			return true
		case errors.Is(err, unix.EAGAIN):
			fds := []unix.PollFd{{Fd: int32(h.socket), Events: unix.POLLOUT}}
			if n, err := unix.Poll(fds, int(orderTime.Milliseconds())); n == 0 && err == nil {
				return false
			}
		case !errors.Is(err, unix.EINTR):
			return false
		}
	}
	return false
}

// takeSocket returns the socket, which the caller closes, and has nothing more sent; -1 if that has been done.
func (h *helper) takeSocket() int {
	h.sending.Lock()
	defer h.sending.Unlock()
	socket := h.socket
	h.socket = -1
	return socket
}

// ending reports whether the socket was taken away.
func (h *helper) ending() bool {
	h.sending.Lock()
	defer h.sending.Unlock()
	return h.socket < 0
}

// cause is why the helper does not serve.
func (h *helper) cause() error {
	err := h.err
	switch {
	case err != nil && h.own:
		return err
	case err == nil && h.ready:
		err = errors.New("it reported no summary")
	case err == nil:
		err = errors.New("it ended before it was ready")
	}
	if h.said != "" {
		err = fmt.Errorf("%w; it printed: %s", err, h.said)
	}
	return err
}

// late says that the helper was waited for in vain.
func (h *helper) late() { h.ended, h.err = true, errors.New("it was not ready in time") }

// failure is why the network is not served from the beginning.
func (h *helper) failure() error {
	e := &Error{Stage: helperStage, Op: "start", Path: h.path, Err: h.cause()}
	if !h.own {
		e.Hint = "install " + HelperName + " again beside nsrun, both of the same version"
	}
	return e
}

// Plain makes one line of at most 500 bytes of a text that anybody may have written.
func Plain(text string) string {
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), maxSaid)])
	return strings.TrimSpace(line)
}

// hear keeps the beginning of what the helper has printed: of a panic, its reason.
func (h *helper) hear() {
	b := make([]byte, maxSaid)
	n, _ := h.printed.ReadAt(b, 0)
	text, _, _ := strings.Cut(string(b[:n]), "\x00")
	h.said = Plain(text)
	h.printed.Close()
}

// leave tells the helper that the command has ended. It passes on what was sent last while the rest of the sandbox ends.
func (h *helper) leave() {
	if h != nil && h.socket >= 0 {
		_ = unix.Shutdown(h.socket, unix.SHUT_WR)
	}
}

// finish ends the helper, and returns what it has to say of what was reached and refused; nil if it was not heard to the end. It may be called twice.
func (h *helper) finish() *netmessage.Summary {
	if h == nil {
		return nil
	}
	if h.socket >= 0 {
		h.leave()
		for until := time.Now().Add(helperEnd); h.served && !h.ended; {
			if ok, err := await(h.socket, max(time.Until(until), 0)); !ok || err != nil { // a negative time would be for ever
				break
			}
			h.read(h.socket)
		}
		unix.Close(h.takeSocket())
		wire.CloseAll(h.sockets)
		h.process.kill() // it has nothing more to do, and must not keep this process waiting
		h.process.wait()
		h.hear()
	}
	return h.summary
}

// helperNote says that the helper was lost on the way.
func helperNote(h *helper) (notes []plan.Note) {
	if h != nil && h.served && h.summary == nil {
		notes = append(notes, HelperLost(h.cause()))
	}
	if h != nil && h.summary != nil && h.summary.Left > 0 {
		notes = append(notes, plan.Note{Feature: "network", Loss: fmt.Sprintf("what the command sent last was not passed on within a second, and is lost, on %d of its connections", h.summary.Left),
			Fix: "have the command wait until its data has arrived"})
	}
	return notes
}

// HelperLost is the note of a command whose network helper did not see its end.
func HelperLost(cause error) plan.Note {
	return plan.Note{Feature: helperStage, Loss: fmt.Sprintf("it ended before the command did, or could not report: connections after that were refused, "+
		"and what was reached or refused is not known: %v", cause)}
}

// heard serves what the helper says while the sandbox runs.
func (r *run) heard() bool {
	h := r.helper
	was := h.ready
	h.read(h.socket)
	if h.ended {
		r.helping.fd = -1
		if !h.ready {
			h.finish() // with what it has printed
			r.breaks(h.failure())
		}
	}
	if h.ready || h.ended {
		r.helperBy = time.Time{}
	}
	if h.ready && !was && r.reported {
		r.release()
	}
	return true
}

// helperTime is how long the helper has until it is ready: until the command's time is up at most.
func (r *run) helperTime() time.Duration {
	if r.deadline.IsZero() {
		return helperStart
	}
	return min(max(time.Until(r.deadline), 0), helperStart)
}

// helperLate ends the sandbox if the helper is not ready in time: the command has not begun, and would not.
func (r *run) helperLate() {
	if r.helperBy.IsZero() || time.Now().Before(r.helperBy) {
		return
	}
	r.helperBy, r.deadline, r.helping.fd = time.Time{}, time.Time{}, -1
	r.helper.late()
	r.breaks(r.helper.failure())
}
