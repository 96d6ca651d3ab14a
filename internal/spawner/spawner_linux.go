// Package spawner is what a program that imports the package nsrun runs in a second process of its own binary: the process that forks its
// sandboxes. That process does nothing else, so a fork copies little, however large the program is. There are two roles, which [Dispatch]
// tells by argv[0]:
//
//	spawner.Dispatch() // first of all in main; returns if this process has neither role
//	// nsrun-spawner opens sandboxes for sessions on request, and ends, with all of them, when descriptor 3 ends
//	// nsrun-runner runs one command and ends: for the backends that cannot open sessions
//
// The program and its spawner send each other messages of package wire:
//
//	program                                        spawner
//	   │  socket: one message for each sandbox        │
//	   │  [reply socket, Request] ──────────────────► │  forks, waits until the sandbox is ready for commands
//	   │                                              │
//	   │  reply socket: one message, and the end      │
//	   │ ◄───── [Answer, and if it succeeded:         │
//	   │          the sandbox's socket, the pidfd of  │
//	   │          its first process, and the sockets  │
//	   │          of its network]                     │
//
// After the answer the program talks to that sandbox itself, over the sandbox's socket: see Program.Serve of package sys. When the first socket ends,
// the spawner ends, and all its sandboxes with it.
//
// It does not protect against the program that it belongs to, whose requests it carries out.
package spawner

import (
	"errors"
	"io"
	"os"
	"os/signal"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/wire"
	"golang.org/x/sys/unix"
)

// Name is the argv[0] by which a program knows that it is one, and socket where its requests come from.
const (
	Name   = "nsrun-spawner"
	socket = 3
)

// spawn is all that a spawner does. It returns when its owner has gone, or with what keeps it from working.
func spawn() error {
	unix.CloseOnExec(socket)
	go reap()
	return serve(backend.ForkThread())
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
func serve(fork func(f func())) error {
	for {
		var order Request
		fds, err := wire.Receive(socket, &order)
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
func carryOut(order Request, reply int, fork func(func())) {
	defer unix.Close(reply)
	opened, err := backend.Open(order.Whole(), backend.OpenOptions{Protected: order.Protected, Fork: fork})
	if err == nil {
		defer unix.Close(opened.Socket)
		defer unix.Close(opened.Pidfd)
		defer wire.CloseAll(opened.Sockets)
		err = wire.Send(reply, Answer{Info: &opened.Info}, append([]int{opened.Socket, opened.Pidfd}, opened.Sockets...)...)
	}
	if err != nil {
		_ = wire.Send(reply, failed(err))
	}
}
