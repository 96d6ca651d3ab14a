package backend

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// countsTime is how long the helper has to say what was reached and refused. It takes less than a millisecond.
const countsTime = 5 * time.Second

// Network is the network of a sandbox that serves, of a plan with an allow-list: its helper. nil is that of other plans. Its methods may be called at the
// same time, once [Network.Serve] has returned.
type Network struct {
	helper *helper  // the goroutine's that listens, until ended is closed
	file   *os.File // its socket, once it serves
	turn   chan struct{}
	counts chan netmessage.Summary
	ended  chan struct{} // closed when the helper has ended and was waited for
	end    sync.Once
}

// NetworkOptions are the parameters of a network beside its plan.
type NetworkOptions struct {
	// Rules are used instead of the plan's, if they are not nil.
	Rules []string
	// Ask is what is asked about; nil for nothing.
	Ask *netmessage.Asking
	// Heard is called for each question, and at the first time that something is refused. It must not block; order, which may be called by anybody, sends an
	// order, and reports false if that cannot be done.
	Heard func(e netmessage.Event, order func(netmessage.Order) bool)
}

// helperThread is the thread that helpers are started from: it lives as long as this process, and a helper ends with it, even one that is stopped or does
// not listen to nsrun any more. It is started with the first helper.
var helperThread struct {
	once sync.Once
	call func(func())
}

// StartNetwork starts the helper of a plan: beside the making of the sandbox, which takes as long.
func StartNetwork(p *plan.Plan, program string, o NetworkOptions) (*Network, error) {
	if p.Allow == nil {
		return nil, nil
	}
	var h *helper
	var err error
	helperThread.once.Do(func() { helperThread.call = ForkThread() })
	helperThread.call(func() { h, err = startHelper(p, program, o) })
	if err != nil {
		return nil, err
	}
	n := &Network{helper: h, turn: make(chan struct{}, 1), counts: make(chan netmessage.Summary, 1), ended: make(chan struct{})}
	n.turn <- struct{}{}
	return n, nil
}

// Serve hands the sandbox's sockets over, and returns when they are served. It takes them over, and after an error the helper has ended. It is called
// once.
func (n *Network) Serve(kinds []string, sockets []int) error {
	if n == nil {
		wire.CloseAll(sockets)
		return nil
	}
	h := n.helper
	var err error
	for i, fd := range sockets {
		if err != nil {
			unix.Close(fd)
		} else {
			err = h.take(kinds[i], fd)
		}
	}
	if err == nil {
		err = h.awaitReady()
	}
	if err == nil {
		err = os.NewSyscallError("fcntl", unix.SetNonblock(h.socket, true))
	}
	if err != nil {
		h.finish()
		return err
	}
	n.file = os.NewFile(uintptr(h.socket), "network helper")
	go n.listen()
	return nil
}

// awaitReady waits until the helper is ready.
func (h *helper) awaitReady() error {
	for until := time.Now().Add(helperStart); !h.ready; {
		if ok, err := await(h.socket, max(time.Until(until), 0)); ok && err == nil {
			h.read(h.socket)
		} else {
			h.late()
		}
		if h.ended {
			h.finish() // with what it has printed
			return h.failure()
		}
	}
	return nil
}

// listen reads what the helper says, until it says no more, and ends it.
func (n *Network) listen() {
	defer close(n.ended)
	h := n.helper
	conn, err := n.file.SyscallConn()
	for err == nil && !h.ended {
		err = conn.Read(func(fd uintptr) bool {
			came, failed := await(int(fd), 0)
			if came && failed == nil {
				h.read(int(fd))
			}
			return came || failed != nil
		})
		if h.counts != nil {
			select {
			case n.counts <- *h.counts: // there is room: only one asks at a time
			default:
				h.ended, h.err = true, errors.New("it sent counts that nobody had asked for")
			}
			h.counts = nil
		}
	}
	h.process.kill()
	h.process.wait()
	h.hear()
}

// Counts returns what was reached and refused until now, and at the end of the sandbox until then. An error says why that is not known, and that nothing
// can be reached any more.
func (n *Network) Counts() (netmessage.Summary, error) { return n.order(netmessage.Order{}) }

// SetRules exchanges the rules, and returns when the new ones count. Connections that they do not allow are reset. See [CheckRules].
func (n *Network) SetRules(rules []string) error {
	_, err := n.order(netmessage.Order{Rules: &rules})
	return err
}

// CheckRules refuses more rules than an order has room for.
func CheckRules(rules []string) error {
	const quotes, room = 3, netmessage.MaxEvent / 2
	if size := len(strings.Join(rules, "")) + quotes*len(rules); size > room {
		return fmt.Errorf("the rules have %d bytes, and there may be %d", size, room)
	}
	return nil
}

// SetAsking is what is asked about from now on.
func (n *Network) SetAsking(what netmessage.Asking) error {
	_, err := n.order(netmessage.Order{Ask: &what})
	return err
}

// order has an order carried out, and returns the counts after that.
func (n *Network) order(o netmessage.Order) (counts netmessage.Summary, err error) {
	if n == nil {
		return counts, nil
	}
	<-n.turn
	defer func() { n.turn <- struct{}{} }()
	if o.Counts = true; n.helper.order(o) {
		select {
		case counts = <-n.counts:
			return counts, nil
		case <-n.ended:
		case <-time.After(countsTime):
		}
	}
	if !n.helper.ending() { // else [Network.End] waits for the summary
		n.helper.process.kill() // an answer that came late would be taken for that to the next order
	}
	<-n.ended
	if n.helper.summary != nil {
		return *n.helper.summary, nil
	}
	return counts, n.helper.cause()
}

// End ends the helper, of a sandbox that has ended.
func (n *Network) End() {
	if n == nil {
		return
	}
	n.end.Do(func() {
		if n.file == nil { // it has never served
			n.helper.finish()
			return
		}
		if socket := n.helper.takeSocket(); socket >= 0 {
			_ = unix.Shutdown(socket, unix.SHUT_WR)
		}
		select {
		case <-n.ended:
		case <-time.After(helperEnd):
		}
		n.file.Close()
		<-n.ended
	})
}

// netSockets receives the sockets of a network that pid 1 sends. It returns without the rest when the set-up has ended before: report says so then.
func netSockets(p *plan.Plan, socket int, report *os.File) (kinds []string, fds []int, err error) {
	if p.Allow == nil {
		return nil, nil, nil
	}
	from := &source{fd: socket}
	from.ready = func() bool {
		kind, fd, failed := netSocket(socket)
		switch {
		case errors.Is(failed, unix.EINTR):
		case failed != nil:
			err = failed
			return false
		case kind == "": // it has ended
			return false
		default:
			kinds, fds = append(kinds, kind), append(fds, fd)
		}
		return kind != netmessage.DNS
	}
	failed := loop(nil, from, &source{fd: int(report.Fd()), ready: func() bool { more, _ := await(socket, 0); return more }})
	if err = errors.Join(err, failed); err != nil {
		wire.CloseAll(fds)
		return nil, nil, &Error{Stage: "channels", Op: "recvmsg", Err: err, Hint: "raise the limit on open files (ulimit -n)"}
	}
	return kinds, fds, nil
}

// netSocket receives one socket. Its kind is empty at the end.
func netSocket(socket int) (kind string, fd int, err error) {
	var room [32]byte // for one descriptor
	message, oob := make([]byte, 1), room[:unix.CmsgSpace(4)]
	n, oobn, err := sys.Recvmsg(socket, message, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return "", -1, err
	}
	fd, passed := passedFD(oob[:oobn])
	kind, known := stages.NetSocket(message[0])
	switch {
	case !passed: // descriptors are cut off where there is no number for them: unix(7), on SCM_RIGHTS
		return "", -1, unix.EMFILE
	case !known:
		unix.Close(fd)
		return "", -1, unix.EBADMSG
	}
	return kind, fd, nil
}
