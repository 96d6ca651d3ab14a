// Package spawner is what a program that imports the package nsrun runs in a second process of its own binary: the process that forks its
// sandboxes. That process does nothing else, so a fork copies little, however large the program is. Package wire has what they say to each
// other. There are two roles, which [Dispatch] tells by argv[0]:
//
//	spawner.Dispatch() // first of all in main; returns if this process has neither role
//	// nsrun-spawner opens sandboxes for sessions on request, and ends, with all of them, when descriptor 3 ends
//	// nsrun-runner runs one command and ends: for the backends that cannot open sessions
//
// It does not protect against the program that it belongs to, whose requests it carries out.
package spawner

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/wire"
	"golang.org/x/sys/unix"
)

// Name is the argv[0] by which a program knows that it is one, and Socket where its requests come from.
const (
	Name   = "nsrun-spawner"
	Socket = 3
)

// Main is all that a spawner does. It returns when its owner has gone, or with what keeps it from working.
func Main() error {
	// The kernel kills sandboxes when the thread that forked them ends (prctl(2), PR_SET_PDEATHSIG), so this one must not.
	runtime.LockOSThread()
	unix.CloseOnExec(Socket)
	go reap()
	work, orders := make(chan func()), make(chan error)
	go func() { orders <- serve(work) }()
	for {
		select {
		case f := <-work:
			f()
		case err := <-orders:
			return err
		}
	}
}

// reap waits for sandboxes that have ended.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}

// serve carries out requests, at the same time, until their end. A request that does not arrive whole is dropped; its reply socket then ends.
func serve(work chan<- func()) error {
	fork := func(f func()) {
		done := make(chan struct{})
		work <- func() { f(); close(done) }
		<-done
	}
	for {
		var order wire.Request
		fds, err := wire.Receive(Socket, &order)
		var broken *os.SyscallError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &broken):
			return err
		case err == nil && len(fds) == 1:
			go carryOut(order, fds[0], fork)
		default:
			wire.CloseAll(fds)
		}
	}
}

// carryOut opens a sandbox and answers. Whoever does not want the answer any more closes the sandbox by not taking it.
func carryOut(order wire.Request, reply int, fork func(func())) {
	defer unix.Close(reply)
	opened, err := backend.Open(order.Whole(), backend.OpenOptions{Protected: order.Protected, Fork: fork})
	if err != nil {
		_ = wire.Send(reply, wire.Answer{Failure: failure(err)})
		return
	}
	defer unix.Close(opened.Socket)
	defer unix.Close(opened.Pidfd)
	info, err := json.Marshal(opened.Info)
	if err == nil {
		err = wire.Send(reply, wire.Answer{Info: info}, opened.Socket, opened.Pidfd)
	}
	if err != nil {
		_ = wire.Send(reply, wire.Answer{Failure: failure(err)})
	}
}

// failure is an error for the program.
func failure(err error) *fault.Error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return e
	}
	return &fault.Error{Stage: "spawner", Err: err}
}
