package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// dockerRun is one run in a container.
type dockerRun struct {
	run
	cli     ContainerCLI
	box     *Docker
	name    string
	started time.Time

	dir      string // private, with what is mounted from there; empty once it is gone
	listener int
	channel  int
	client   *exec.Cmd // which stays until the container has been removed
	clientFD int       // its pidfd
	said     *os.File  // what it says, and pid 1 before it has been heard of
	failed   *farFailure
	exit     *farExit
}

func newDockerRun(p *plan.Plan, opts Options, cli ContainerCLI, box *Docker) *dockerRun {
	var random [8]byte
	_, _ = unix.Getrandom(random[:], 0) // a name that is taken is an error of the engine's
	return &dockerRun{run: run{plan: p, opts: opts, pidfd: -1, parent: -1, command: -1}, cli: cli, box: box,
		name: fmt.Sprintf("nsrun-%x", random), listener: -1, channel: -1, clientFD: -1, started: time.Now()}
}

// Times that the parts of a run may take. A container starts in a third of a second; a machine under load takes longer.
const (
	startPatience  = 30 * time.Second
	killedPatience = 5 * time.Second // to start, once the run has been told to end
	removePatience = 3 * time.Second // then it is asked for by name
)

// all is the run from the image to the end of the container.
func (d *dockerRun) all() (err error) {
	if d.opts.DieWithParent {
		if d.parent, err = parent(); err != nil {
			return err
		}
	}
	done := make(chan struct{})
	defer close(done)
	if d.opts.Cancel != nil {
		go d.killOn(d.opts.Cancel, done)
	}
	if d.opts.Signals != nil {
		go d.watch(d.opts.Signals(), done)
	}
	image, err := d.image()
	if err != nil {
		return err
	}
	if err := d.prepare(); err != nil {
		return &Error{Stage: "docker", Op: "prepare", Err: err}
	}
	if err := d.start(image); err != nil {
		return err
	}
	if err := d.arrive(); err != nil {
		return err
	}
	if d.plan.Timeout > 0 {
		d.deadline = time.Now().Add(time.Duration(d.plan.Timeout))
	}
	d.listen()
	d.awaitEnd()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out.Wall = time.Since(d.started)
	switch {
	case d.failed != nil:
		return d.failed.explain(d.plan)
	case d.exit != nil:
		d.out.Killed = 0
		d.out.Status, d.out.Usage = unix.WaitStatus(d.exit.Status), d.exit.Usage
	default: // killed by us, or by someone outside
		d.out.Status = unix.WaitStatus(unix.SIGKILL)
	}
	return nil
}

// image makes sure that the engine has the image of the root, which stays there: it is some 512 bytes for each name. Two runs that make
// it at the same time make the same.
func (d *dockerRun) image() (string, error) {
	tar, name := d.box.view.image()
	_, err := d.cli.ask(firstPatience, nil, "image", "inspect", "--format={{.Id}}", name)
	switch {
	case err == nil:
		return name, nil
	case errors.Is(err, errNoAnswer):
		return "", d.cli.unanswered(err)
	}
	_, err = d.cli.ask(cliPatience, tar, "import", "-", name)
	return name, d.cli.unanswered(err)
}

// prepare makes the private directory, with the socket, the profile, and the files that the view has from the plan. Nobody but this user
// and the engine can look into it, and it is gone before the command runs.
func (d *dockerRun) prepare() (err error) {
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" {
		base = os.TempDir()
	}
	if d.dir, err = os.MkdirTemp(base, "nsrun-"); err != nil {
		return err
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	if err := d.cli.speakable(d.dir); err != nil {
		return err
	}
	for i, data := range d.box.view.files {
		mode := os.FileMode(d.box.view.modes[i])
		if mode == 0 {
			mode = 0o644
		}
		name := d.file(i)
		if err := errors.Join(os.WriteFile(name, data, 0o600), os.Chmod(name, mode)); err != nil {
			return err
		}
	}
	if d.box.profile != nil {
		if err := os.WriteFile(d.dir+"/seccomp", d.box.profile, 0o600); err != nil {
			return err
		}
	}
	if d.said, err = memory(nil); err != nil {
		return err
	}
	return d.openChannel()
}

func (d *dockerRun) file(i int) string { return fmt.Sprintf("%s/file%d", d.dir, i) }

// openChannel binds the socket by a descriptor of its directory, since an address holds 107 bytes (unix(7)).
func (d *dockerRun) openChannel() error {
	dir, err := unix.Open(d.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if d.listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("socket", err)
	}
	name := fmt.Sprintf("/proc/self/fd/%d/channel", dir)
	if err := unix.Bind(d.listener, &unix.SockaddrUnix{Name: name}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	// For every user: one that is not ours is told so. Only what can enter the directory gets here.
	return errors.Join(os.Chmod(d.dir+"/channel", 0o666), os.NewSyscallError("listen", unix.Listen(d.listener, 1)))
}

// start has the client make and start the container. It is left alone if this process dies: a container that is half made would stay,
// while one that starts finds nobody to talk to, ends and is removed.
func (d *dockerRun) start(image string) error {
	exe, err := os.Readlink("/proc/self/exe")
	if err == nil {
		err = d.cli.speakable(exe)
	}
	if err != nil {
		return &Error{Stage: "docker", Op: "look for nsrun's binary", Err: err}
	}
	args := append([]string{"run", "--name=" + d.name}, d.box.Args...)
	args = append(args, d.cli.bind(exe, insideName, true), d.cli.bind(d.dir+"/channel", channelName, false))
	for _, p := range d.box.view.points {
		if p.file >= 0 {
			args = append(args, d.cli.bind(d.file(p.file), p.op.Dest, true))
		}
	}
	if d.box.profile != nil {
		args = append(args, "--security-opt=seccomp="+d.dir+"/seccomp")
	} else {
		args = append(args, "--security-opt=seccomp=unconfined")
	}
	client := d.cli.command(context.Background(), append(args, image, "inside")...)
	client.Stdout, client.Stderr = d.said, d.said
	if err := client.Start(); err != nil {
		return &Error{Stage: "docker", Op: "start", Path: d.cli.Path, Err: err}
	}
	d.client = client
	if d.clientFD, err = unix.PidfdOpen(client.Process.Pid, 0); err != nil {
		return &Error{Stage: "docker", Op: "pidfd_open", Err: err}
	}
	return nil
}

// arrive waits until pid 1 of the container has connected, and gives it its orders.
func (d *dockerRun) arrive() error {
	const slice = 100 * time.Millisecond // in which a kill is noticed
	for until := time.Now().Add(startPatience); ; {
		fds := []unix.PollFd{{Fd: int32(d.listener), Events: unix.POLLIN}, {Fd: int32(d.clientFD), Events: unix.POLLIN}, {Fd: int32(d.parent), Events: unix.POLLIN}}
		ts := unix.NsecToTimespec(slice.Nanoseconds())
		if _, err := unix.Ppoll(fds, &ts, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return &Error{Stage: "docker", Op: "wait", Err: err}
		}
		d.mu.Lock()
		killed := d.killed
		d.mu.Unlock()
		switch {
		case fds[0].Revents != 0:
			return d.accept()
		case fds[1].Revents != 0:
			return d.explainClient()
		case fds[2].Revents != 0:
			d.orphaned()
		case killed && time.Until(until) > killedPatience:
			until = time.Now().Add(killedPatience)
		case time.Now().After(until):
			return &Error{Stage: "docker", Op: "start", Err: errors.New("the container has not called back"),
				Hint: "the engine must run on this machine and this kernel: no remote daemon, no virtual machine"}
		}
	}
}

// orphaned ends the run because whoever started this process has ended.
func (d *dockerRun) orphaned() {
	d.kill()
	unix.Close(d.parent)
	d.parent = -1
}

// explainClient makes an error of what the client, which has ended, has printed.
func (d *dockerRun) explainClient() error {
	err := d.client.Wait()
	d.client = nil
	_, _ = d.cli.ask(cliPatience, nil, "rm", "--force", d.name) // as a rule it has been removed
	if err == nil {
		err = errors.New("the container has ended and said nothing")
	}
	text, _ := io.ReadAll(io.NewSectionReader(d.said, 0, 1<<14))
	return &Error{Stage: "docker", Op: "run", Err: d.cli.said(text, err), Hint: "see to it that " + d.cli.Name() + " works, or use --backend native"}
}

// accept takes the connection of pid 1, makes sure whose it is, and takes away what nobody else may have.
func (d *dockerRun) accept() error {
	fd, _, err := unix.Accept4(d.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return &Error{Stage: "docker", Op: "accept", Err: err}
	}
	d.channel = fd
	d.cleanUp() // before there is a command
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
	return d.sendOrders()
}

// sendOrders passes the orders and the standard descriptors. The orders are a file, for they can be longer than a message.
func (d *dockerRun) sendOrders() error {
	data, err := json.Marshal(d.box.orders)
	if err != nil {
		return err
	}
	file, err := memory(data)
	if err != nil {
		return &Error{Stage: "channels", Err: err}
	}
	defer file.Close()
	if err := unix.Sendmsg(d.channel, []byte{'O'}, unix.UnixRights(int(file.Fd()), 0, 1, 2), nil, unix.MSG_NOSIGNAL); err != nil {
		return &Error{Stage: "docker", Op: "send orders", Err: err}
	}
	return nil
}

// listen takes what pid 1 says, and serves the clock and the caller's end meanwhile, until the connection ends.
func (d *dockerRun) listen() {
	for {
		fds := []unix.PollFd{{Fd: int32(d.channel), Events: unix.POLLIN}, {Fd: int32(d.parent), Events: unix.POLLIN}}
		n, err := unix.Ppoll(fds, d.untilDeadline(), nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			d.kill()
			return
		case n <= 0:
			d.timeUp()
		case fds[1].Revents != 0:
			d.orphaned()
		case !d.hear():
			return
		}
	}
}

// hear takes one message, and says whether there may be more.
func (d *dockerRun) hear() bool {
	buf, oob := make([]byte, 1<<14), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(d.channel, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || n == 0 {
		return false
	}
	fd, passed := passedFD(oob[:oobn])
	switch body := buf[1:n]; {
	case passed:
		d.passed(buf[0], fd)
	case buf[0] == 'F':
		d.failed = new(farFailure)
		_ = json.Unmarshal(body, d.failed)
	case buf[0] == 'X':
		d.exit = new(farExit)
		_ = json.Unmarshal(body, d.exit)
	}
	return true
}

// awaitEnd waits until the container's processes are gone, pid 1 being the last of them, and then until the engine has removed it.
func (d *dockerRun) awaitEnd() {
	d.kill() // it has nothing more to say
	for {
		if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(d.pidfd), Events: unix.POLLIN}}, nil, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.endClient(removePatience)
}

// endClient waits until the client has ended, which it does when the container has been removed. One that takes too long is killed, and
// the container removed by its name.
func (d *dockerRun) endClient(patience time.Duration) {
	if d.client == nil {
		return
	}
	fds := []unix.PollFd{{Fd: int32(d.clientFD), Events: unix.POLLIN}}
	n, err := 0, error(nil)
	for until := time.Now().Add(patience); n == 0; {
		ts := unix.NsecToTimespec(max(time.Until(until), 0).Nanoseconds())
		if n, err = unix.Ppoll(fds, &ts, nil); !errors.Is(err, unix.EINTR) {
			break
		}
		n = 0
	}
	if n <= 0 {
		_ = syscall.Kill(-d.client.Process.Pid, syscall.SIGKILL)
	}
	_ = d.client.Wait()
	d.client = nil
	if n <= 0 {
		_, _ = d.cli.ask(cliPatience, nil, "rm", "--force", d.name)
	}
}

// cleanUp takes away the private directory, and the socket's end that others could connect to.
func (d *dockerRun) cleanUp() {
	if d.listener >= 0 {
		unix.Close(d.listener)
		d.listener = -1
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
		d.dir = ""
	}
}

func (d *dockerRun) close() {
	d.cleanUp()
	if d.channel >= 0 {
		unix.Close(d.channel) // which ends pid 1, if it is still there
	}
	if d.client != nil {
		patience := time.Duration(0)
		if d.channel >= 0 {
			patience = removePatience
		}
		d.endClient(patience)
	}
	if d.clientFD >= 0 {
		unix.Close(d.clientFD)
	}
	if d.said != nil {
		d.said.Close()
	}
	d.run.close()
}
