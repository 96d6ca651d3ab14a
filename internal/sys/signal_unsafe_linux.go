package sys

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signalFD is where onSignal writes to.
var signalFD int32

// signalEntries returns the addresses of onSignal and of the code that it returns to, or 0 where the kernel provides that.
func signalEntries() (handler, restorer uintptr)

// Flags of sigaction(2), from include/uapi/asm-generic/signal-defs.h and arch/x86/include/uapi/asm/signal.h.
const (
	saRestorer = 0x04000000
	saOnStack  = 0x08000000
	saRestart  = 0x10000000
)

// handled is struct sigaction of the kernel, with the restorer, which arm64 has too and does not need.
type handled struct{ handler, flags, restorer, mask uintptr }

// SetAction gives a signal the default action, or has it ignored (sigaction(2)). Go's runtime does not learn of it, and its own handler is gone.
func SetAction(sig unix.Signal, ignore bool) {
	var action handled
	if ignore {
		const sigIgn = 1
		action.handler = sigIgn
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// SignalPipe has the numbers of signals written into a pipe as they come, a byte each, and returns its end to read from, which does not block.
// It is for a process that waits for one thing: os/signal would start goroutines, and a thread, for them, which takes some 70 us. A process has
// one such pipe. SIGHUP stays ignored where this process was started so, as by nohup(1).
func SignalPipe(signals ...unix.Signal) (fd int, err error) {
	if signalFD != 0 {
		return -1, errors.New("bug: this process has a pipe of signals")
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, os.NewSyscallError("pipe2", err)
	}
	signalFD = int32(pipe[1])
	for _, sig := range signals {
		if sig == unix.SIGHUP && ignored(sig) {
			continue
		}
		var p Program
		p.Add(unix.SYS_RT_SIGACTION, Int(int(sig)), Struct(newHandled()), Null(), Int(8))
		if err := p.Run(); err != nil {
			return -1, err
		}
	}
	return pipe[0], nil
}

// ignored reports whether a signal is ignored now. Go's runtime leaves SIGHUP and SIGINT so.
func ignored(sig unix.Signal) bool {
	const ignore = 1 // SIG_IGN
	var now handled
	var p Program
	p.Add(unix.SYS_RT_SIGACTION, Int(int(sig)), Null(), Struct(&now), Int(8))
	return p.Run() == nil && now.handler == ignore
}

func newHandled() *handled {
	handler, restorer := signalEntries()
	h := &handled{handler: handler, flags: saOnStack | saRestart, restorer: restorer, mask: ^uintptr(0)}
	if runtime.GOARCH == "arm64" {
		h.restorer = h.mask // the mask's place
	} else {
		h.flags |= saRestorer
	}
	return h
}
