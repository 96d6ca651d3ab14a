// Command unlucky starts a program whose looks at the host are noted, and one of them made to fail:
//
//	unlucky LOG MARK LOOK ERRNO PROGRAM [ARGUMENT ...]
//
// LOG gets a line for each look, such as "newfstatat /etc/shadow 1": the system call, what it is about, and how often that was looked at
// before, with this look. Calls by which PROGRAM talks to other processes or waits for them are noted as looks at /. MARK is a path: when
// another process than PROGRAM's own has looked at it, what comes after is noted as "late". LOOK is the line of the look that fails with
// ERRNO, or -. Processes that PROGRAM starts are left alone. unlucky ends as PROGRAM does.
//
// PROGRAM has no_new_privs set and a filter by which unlucky is asked (seccomp_unotify(2)). unlucky is no protection: it trusts PROGRAM.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == childMark {
		fail(become(os.Args[2:]))
	}
	if len(os.Args) < 6 {
		fail(errors.New("usage: unlucky LOG MARK LOOK ERRNO PROGRAM [ARGUMENT ...]"))
	}
	code, err := run()
	if err != nil {
		fail(err)
	}
	os.Exit(code)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "unlucky:", err)
	os.Exit(99)
}

// childMark is the first argument of this program where it is to become PROGRAM; the socket is descriptor 3 then.
const childMark = "become"

func run() (code int, err error) {
	errno, err := strconv.Atoi(os.Args[4])
	if err != nil {
		return 0, err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	theirs := os.NewFile(uintptr(ends[1]), "socket")
	cmd := exec.Command("/proc/self/exe", append([]string{childMark}, os.Args[5:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{theirs}
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	theirs.Close()
	listener, err := receive(ends[0])
	if err != nil {
		return 0, err
	}
	w := watcher{listener: listener, pid: cmd.Process.Pid, mark: os.Args[2], look: os.Args[3], errno: unix.Errno(errno), count: map[string]int{}}
	failed := make(chan error, 1)
	go func() { failed <- w.watch() }()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	select {
	case err := <-failed: // every process with the filter is gone, or there was an error
		if err != nil {
			return 0, err
		}
	default:
	}
	if err := w.save(os.Args[1]); err != nil {
		return 0, err
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// become puts the filter on this thread, sends the descriptor that answers for it, and executes the program.
func become(argv []string) error {
	runtime.LockOSThread()
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	listener, err := install()
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return err
	}
	unix.Close(3)
	return syscall.Exec(program, argv, os.Environ())
}

func receive(socket int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return 0, fmt.Errorf("no descriptor came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}
