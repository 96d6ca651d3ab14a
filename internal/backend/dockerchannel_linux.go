package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/internal/wire"
	"golang.org/x/sys/unix"
)

// accept accepts the connection of pid 1, checks its credentials, and removes the socket and the private directory.
func (d *dockerRun) accept() error {
	fd, _, err := unix.Accept4(d.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return &Error{Stage: "docker", Op: "accept", Err: err}
	}
	d.channel = fd
	d.cleanUp() // before there is a command that could use them
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return &Error{Stage: "docker", Op: "getsockopt", Err: err}
	}
	if want := d.plan.Identity; int(cred.Uid) != want.HostUID || int(cred.Gid) != want.HostGID {
		return &Error{Stage: "identity", Err: fmt.Errorf("the container runs as the host's uid %d gid %d, not as %d %d", cred.Uid, cred.Gid, want.HostUID, want.HostGID),
			Hint: "the daemon maps users (rootless Docker, userns-remap): use Podman, or --backend native"}
	}
	pidfd, err := unix.PidfdOpen(int(cred.Pid), 0)
	if err != nil {
		return &Error{Stage: "docker", Op: "pidfd_open", Err: err, Hint: "run nsrun in the pid namespace of the daemon, or use --backend native"}
	}
	d.mu.Lock()
	d.pidfd = pidfd
	killed := d.killed
	d.mu.Unlock()
	if killed {
		d.kill()
		return nil
	}
	return d.sendRequest()
}

// sendRequest sends the request and the standard descriptors.
func (d *dockerRun) sendRequest() error {
	if err := wire.Send(d.channel, d.box.request, 0, 1, 2); err != nil {
		return &Error{Stage: "docker", Op: "send the request", Err: err}
	}
	return nil
}

// listen serves pid 1's messages, the clock and the end of the caller until the connection ends.
func (d *dockerRun) listen() {
	if err := d.serve(&source{fd: d.channel, ready: d.receive}); err != nil {
		d.lost = err
		d.kill()
	}
}

// receive receives one message, and reports whether more may come.
func (d *dockerRun) receive() bool {
	buf, oob := make([]byte, 1<<14), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(d.channel, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNRESET) { // it comes once: see takeMessage
		return true
	}
	if err != nil {
		d.lost = os.NewSyscallError("recvmsg", err)
	}
	if err != nil || n == 0 {
		return false
	}
	fd, passed := passedFD(oob[:oobn])
	switch body := buf[1:n]; {
	case passed:
		d.passed(buf[0], fd)
	case buf[0] == 'F':
		d.failed = new(Error)
		_ = json.Unmarshal(body, d.failed)
	case buf[0] == 'X':
		d.exit = new(remoteExit)
		_ = json.Unmarshal(body, d.exit)
	}
	return true
}
