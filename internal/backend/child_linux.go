package backend

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is another program that this process has started, by its pidfd. Package os would start a process of its own first, to find out whether there are
// pidfds (200 us).
type child struct{ pidfd *os.File }

// startChild starts a program, as [os.StartProcess] does.
func startChild(path string, argv []string, env []string, files []*os.File, how syscall.SysProcAttr) (*child, error) {
	pidfd := -1
	how.PidFD = &pidfd
	attr := &syscall.ProcAttr{Dir: "/", Env: env, Sys: &how}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	if pidfd < 0 {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		return nil, unix.ENOSYS
	}
	return &child{os.NewFile(uintptr(pidfd), "child")}, nil
}

// kill kills the child, unless it was waited for.
func (c *child) kill() {
	if conn, err := c.pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	}
}

// wait waits until the child has ended.
func (c *child) wait() {
	if conn, err := c.pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			for errors.Is(unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED, nil), unix.EINTR) {
			}
		})
	}
	c.pidfd.Close()
}
