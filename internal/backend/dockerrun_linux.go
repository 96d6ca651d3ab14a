package backend

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

	dir          string // the private directory, with files to mount; empty once it is removed
	sweeper      *sweeper
	listener     int
	channel      int
	client       *exec.Cmd // it runs until the container has been removed
	clientFD     int       // its pidfd
	clientOutput *os.File  // its messages, and those of pid 1 before it has connected
	failed       *Error
	exit         *remoteExit
	lost         error // why messages from pid 1 are not received any more
}

// newDockerRun returns a run with a random name for its container.
func newDockerRun(p *plan.Plan, opts Options, cli ContainerCLI, box *Docker) *dockerRun {
	var random [8]byte
	_, _ = unix.Getrandom(random[:], 0) // if the name is taken, the engine reports an error
	return &dockerRun{run: run{plan: p, opts: opts, pidfd: -1, parent: -1, command: -1}, cli: cli, box: box,
		name: fmt.Sprintf("nsrun-%x", random), listener: -1, channel: -1, clientFD: -1, started: time.Now()}
}

// The longest times of the parts of a run. A container starts in a third of a second; a machine under load takes longer.
const (
	startTimeout  = 30 * time.Second
	killedTimeout = 5 * time.Second // to start, once the run is to end
	removeTimeout = 3 * time.Second // after that the container is removed by name
)

// all runs the container, from its image to its end.
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
		return explain(d.failed, d.plan)
	case d.exit != nil:
		d.endedBy(unix.WaitStatus(d.exit.Status))
		d.out.Status, d.out.Usage = unix.WaitStatus(d.exit.Status), d.exit.Usage
	case d.lost != nil:
		return broken("receive", d.lost, true)
	default: // killed, by nsrun or by another process
		d.out.Status = unix.WaitStatus(unix.SIGKILL)
	}
	return nil
}

// arrive waits until pid 1 of the container has connected, and sends it the request.
func (d *dockerRun) arrive() error {
	const slice = 100 * time.Millisecond // a kill is noticed within this time
	until := time.Now().Add(startTimeout)
	err := error(&Error{Stage: "docker", Op: "start", Err: errors.New("the container has not called back"),
		Hint: "the backend must run on this machine and this kernel: no remote daemon, no virtual machine"})
	failed := loop(func(bool) (time.Duration, bool) {
		d.mu.Lock()
		killed := d.killed
		d.mu.Unlock()
		if killed && time.Until(until) > killedTimeout {
			until = time.Now().Add(killedTimeout)
		}
		return slice, time.Now().Before(until)
	}, once(d.listener, func() { err = d.accept() }), once(d.clientFD, func() { err = d.explainClient() }), d.orphan(), d.signals())
	if failed != nil {
		return &Error{Stage: "docker", Op: "wait", Err: failed}
	}
	return err
}

// explainClient returns an error with the message of the client, which has ended.
func (d *dockerRun) explainClient() error {
	err := d.client.Wait()
	d.client = nil
	_, _ = d.cli.ask(cliTimeout, nil, "rm", "--force", d.name) // as a rule it has been removed
	if err == nil {
		err = errors.New("the container has ended and reported nothing")
	}
	text, _ := io.ReadAll(io.NewSectionReader(d.clientOutput, 0, 1<<14))
	return &Error{Stage: "docker", Op: "run", Err: d.cli.lastError(text, err), Hint: "see to it that " + d.cli.Name() + " works, or use --backend native"}
}

// awaitEnd waits until the container's processes have ended, pid 1 as the last of them, and then until the engine has removed the
// container.
func (d *dockerRun) awaitEnd() {
	d.kill() // it sends no more messages
	_, _ = await(d.pidfd, -1)
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.endClient()
}

// endClient waits until the client has ended, which it does when the container has been removed. If that takes too long, it kills the
// client and removes the container by name.
func (d *dockerRun) endClient() {
	if d.client == nil {
		return
	}
	ended, _ := await(d.clientFD, removeTimeout)
	if !ended {
		_ = syscall.Kill(-d.client.Process.Pid, syscall.SIGKILL)
	}
	_ = d.client.Wait()
	d.client = nil
	if !ended {
		_, _ = d.cli.ask(cliTimeout, nil, "rm", "--force", d.name)
	}
}

// closeListener closes the socket that a pid 1 connects to. A pid 1 that comes later ends at once.
func (d *dockerRun) closeListener() {
	if d.listener >= 0 {
		unix.Close(d.listener)
		d.listener = -1
	}
}

// cleanUp removes the private directory and closes the socket. It tries twice, because a call may fail once for want of memory.
func (d *dockerRun) cleanUp() {
	d.closeListener()
	if d.dir != "" {
		err := os.RemoveAll(d.dir)
		if err != nil {
			err = os.RemoveAll(d.dir)
		}
		if err != nil {
			d.out.Losses = append(d.out.Losses, plan.Note{Feature: "docker", Loss: "a directory is left behind: " + err.Error(), Fix: "remove " + d.dir})
		}
		d.dir = ""
	}
	if d.sweeper != nil {
		d.sweeper.end()
		d.sweeper = nil
	}
}

// close ends the container, and releases everything else.
func (d *dockerRun) close() {
	d.closeListener()
	if d.channel >= 0 {
		unix.Close(d.channel) // this ends pid 1, if it is still there
	}
	d.endClient() // before cleanUp removes the sources of the container's mounts
	d.cleanUp()
	for _, fd := range []int{d.clientFD, d.parent} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if d.clientOutput != nil {
		d.clientOutput.Close()
	}
	d.run.close()
}
