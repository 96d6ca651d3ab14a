package vm

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithParent starts a command that is killed when this process ends. The kernel means the thread, which therefore stays.
func dieWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {} // as long as the process
	}()
	return <-started
}
