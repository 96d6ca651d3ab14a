// Package nethelper is the host side of nsrun's network mode "allow", as a process of its own: the command nsrun-helper, or a program that imports
// nsrun/network. nsrun starts it, once for each sandbox.
//
// Descriptor 3 is a socket of the kind SOCK_SEQPACKET to nsrun: see package netmessage. The helper confines itself, receives what is to be served,
// and reports that it is ready. It serves until nsrun shuts its side of the socket down, and then sends a summary. It ends at once when nsrun has
// ended.
//
// The confinement bounds what a bug in the helper could be used for: it starts no program, writes no file and reads only the files that resolving a
// name takes. It does not bound which hosts the helper can connect to; that is the work of package nethost.
package nethelper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/nsrun/nsrun/internal/nethost"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/wire"
	"golang.org/x/sys/unix"
)

const (
	socket      = 3
	exitUsage   = 125
	memoryLimit = 256 << 20
	usualSlack  = 50_000 // ns: PR_SET_TIMERSLACK(2const)
)

// Main is all that the process does. It returns when it has answered a question for its version, or has served.
func Main(version string) {
	parent := unix.Getppid()
	switch kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE); {
	case len(os.Args) == 2 && (os.Args[1] == "--version" || os.Args[1] == "-v" || os.Args[1] == "version"):
		fmt.Printf("nsrun-helper %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		return
	case len(os.Args) > 1 || err != nil || kind != unix.SOCK_SEQPACKET:
		fmt.Fprintln(os.Stderr, "nsrun-helper: this is the network helper of nsrun, which starts it by itself for --net allow; it is not run by hand")
		os.Exit(exitUsage)
	}
	_ = os.WriteFile("/proc/self/comm", []byte("nsrun-helper"), 0) // for ps, where it was not started from a file of that name
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0)    // nsrun has started this thread with more
	unix.CloseOnExec(socket)
	closeInherited()
	debug.SetMemoryLimit(memoryLimit)
	err := run(parent)
	if err != nil {
		send(netmessage.Event{Error: err.Error()})
		os.Exit(exitUsage)
	}
}

// closeInherited closes what nsrun's caller has left open, which this process has no use for. What Go's runtime has opened is closed on exec.
func closeInherited() {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range list {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= socket {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// run serves one sandbox. It returns an error if it cannot serve it.
func run(parent int) error {
	if err := confine(); err != nil { // while the sandbox is made
		return fmt.Errorf("confine the network helper: %w", err)
	}
	var start netmessage.Start
	fds, err := wire.Receive(socket, &start)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("receive what is to be served: %w", err)
	}
	sockets := make([]*os.File, len(fds))
	for i, fd := range fds {
		sockets[i] = os.NewFile(uintptr(fd), "socket of the sandbox")
	}
	if unix.Getppid() != parent {
		return nil // nsrun has ended before it could ask for a signal at its end (PR_SET_PDEATHSIG, prctl(2))
	}
	events := make(chan netmessage.Event, 64)
	// nsrun starts this program with one processor for Go's scheduler, as more cost a start of which nothing may come; a busy server has all.
	server, err := nethost.Serve(start, sockets, nethost.Options{Busy: runtime.SetDefaultGOMAXPROCS, Event: func(e netmessage.Event) {
		if e.Question != nil { // its connection waits
			send(e)
			return
		}
		select {
		case events <- e:
		default: // nsrun does not read; the summary has it
		}
	}})
	if err != nil {
		return err
	}
	send(netmessage.Event{Ready: true})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range events {
			send(e)
		}
	}()
	failed := serve(server)
	left := 0
	if failed == nil {
		left = server.Finish(finishTime)
	}
	summary := server.Close()
	summary.Left = left
	close(events)
	<-ended
	if failed != nil {
		return failed
	}
	sendSummary(&summary, func(s *netmessage.Summary) netmessage.Event { return netmessage.Event{Summary: s} })
	return nil
}

// finishTime is how long what the sandbox has sent last may take to be passed on. nsrun waits somewhat longer for the summary.
const finishTime = time.Second

// serve carries out orders until the end of nsrun's side of the socket.
func serve(server *nethost.Server) error {
	b := make([]byte, netmessage.MaxEvent)
	for {
		n, _, err := unix.Recvfrom(socket, b, unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return nil
		}
		var order netmessage.Order
		if n > len(b) {
			return fmt.Errorf("an order has more than %d bytes", len(b))
		}
		if err := json.Unmarshal(b[:n], &order); err != nil {
			return fmt.Errorf("an order of nsrun's: %w", err)
		}
		if err := carryOut(server, order); err != nil {
			return err
		}
	}
}

func carryOut(server *nethost.Server, order netmessage.Order) error {
	if order.Rules != nil {
		if err := server.SetRules(*order.Rules); err != nil {
			return err
		}
	}
	if err := server.AddRules(order.Add); err != nil {
		return err
	}
	if order.Ask != nil {
		if err := server.SetAsking(*order.Ask); err != nil {
			return err
		}
	}
	if order.Answer != nil {
		server.Answer(*order.Answer)
	}
	if order.Counts {
		counts := server.Counts()
		sendSummary(&counts, func(s *netmessage.Summary) netmessage.Event { return netmessage.Event{Counts: s} })
	}
	return nil
}

// send sends an event. It fails if nsrun has ended, which await sees.
func send(e netmessage.Event) bool {
	data, err := json.Marshal(e)
	if err != nil || len(data) > netmessage.MaxEvent {
		return false
	}
	for {
		err = unix.Sendto(socket, data, unix.MSG_NOSIGNAL, nil)
		if !errors.Is(err, unix.EINTR) {
			return true
		}
	}
}

// sendSummary sends a summary as an event. It leaves out what does not fit into one.
func sendSummary(s *netmessage.Summary, as func(*netmessage.Summary) netmessage.Event) {
	for !send(as(s)) {
		names, refusals := len(s.Names)*3/4, len(s.Refusals)*3/4
		if len(s.Names)+len(s.Refusals) == 0 {
			return
		}
		s.Omitted += len(s.Names) - names + len(s.Refusals) - refusals
		s.Names, s.Refusals = s.Names[:names], s.Refusals[:refusals]
	}
}
