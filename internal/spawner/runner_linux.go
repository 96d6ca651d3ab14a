package spawner

import (
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/wire"
	"golang.org/x/sys/unix"
)

// RunnerName is the argv[0] of a process that runs one command and ends: for backends that cannot open sessions. Its standard descriptors
// are the command's; the order comes over descriptor socket, and what became of it goes back there. The end of that is the end of the run.
const RunnerName = "nsrun-runner"

// runOne is all that such a process does.
func runOne() error {
	unix.CloseOnExec(socket)
	var order Request
	if _, err := wire.Receive(socket, &order); err != nil {
		return err
	}
	cancel := make(chan struct{})
	go func() {
		for {
			n, err := unix.Read(socket, make([]byte, 1))
			if !errors.Is(err, unix.EINTR) && (err != nil || n == 0) {
				close(cancel)
				return
			}
		}
	}()
	out, err := backend.Run(order.Whole(), backend.Options{Cancel: cancel, Protected: order.Protected, Home: order.Home, DieWithParent: true})
	if err != nil {
		return wire.Send(socket, failed(err))
	}
	return wire.Send(socket, Answer{Outcome: &out})
}

// roles are those of other packages, by argv[0]. It is made when there is one: nsrun has none, and an initialiser would run at each start.
var roles map[string]func()

// AddRole adds a role to those of [Dispatch]. It does all that its process does.
func AddRole(name string, role func()) {
	if roles == nil {
		roles = map[string]func(){}
	}
	roles[name] = role
}

// Dispatch runs the role that this process was started for, if it is one of this package's, and ends it.
func Dispatch() {
	if len(os.Args) == 0 {
		return
	}
	var role func() error
	switch os.Args[0] {
	case Name:
		role = spawn
	case RunnerName:
		role = runOne
	default:
		if other := roles[os.Args[0]]; other != nil {
			other()
			os.Exit(0)
		}
		return
	}
	closeInherited()
	_ = os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0) // for ps, which would show "exe"
	if err := role(); err != nil && !errors.Is(err, io.EOF) {
		_, _ = os.Stderr.WriteString(os.Args[0] + ": " + err.Error() + "; it is for programs that import nsrun alone\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// closeInherited closes what the owner has left open to be inherited, which would never end otherwise. What Go has opened for itself is
// close-on-exec.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= socket {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}
