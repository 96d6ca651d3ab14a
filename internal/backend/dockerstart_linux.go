package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// image makes sure that the engine has the image of the root, and returns its name. The image stays there; it has some 512 bytes for each
// entry. Two runs that make it at the same time make the same image.
func (d *dockerRun) image() (string, error) {
	tar, name := d.box.view.image()
	_, err := d.cli.ask(firstTimeout, nil, "image", "inspect", "--format={{.Id}}", name)
	switch {
	case err == nil:
		return name, nil
	case errors.Is(err, errNoAnswer):
		return "", d.cli.unanswered(err)
	}
	_, err = d.cli.ask(cliTimeout, tar, "import", "-", name)
	return name, d.cli.unanswered(err)
}

// prepare makes the private directory, with the socket, the filter, and the files whose contents the plan has. Only this user and the
// engine can read it, and it is removed before the command runs.
func (d *dockerRun) prepare() (err error) {
	if base := os.Getenv("XDG_RUNTIME_DIR"); base != "" {
		d.dir, err = os.MkdirTemp(base, "nsrun-")
	}
	if d.dir == "" { // after sudo the variable may name another user's directory
		d.dir, err = os.MkdirTemp("", "nsrun-")
	}
	if err == nil {
		d.dir, err = filepath.Abs(d.dir)
	}
	if err != nil {
		return err
	}
	if err := d.cli.speakable(d.dir); err != nil {
		return err
	}
	made := []string{d.dir + "/channel", d.dir + "/seccomp"}
	for i := range d.box.view.files {
		made = append(made, d.file(i))
	}
	if d.sweeper, err = newSweeper(d.dir, made); err != nil {
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
	if d.box.filter != nil {
		if err := os.WriteFile(d.dir+"/seccomp", d.box.filter, 0o600); err != nil {
			return err
		}
	}
	if d.clientOutput, err = sys.MemoryFile(nil); err != nil {
		return err
	}
	return d.openChannel()
}

// file returns the path of file i in the private directory.
func (d *dockerRun) file(i int) string { return fmt.Sprintf("%s/file%d", d.dir, i) }

// openChannel binds the socket. It does so by a descriptor of its directory, because a socket address holds only 107 bytes (unix(7)).
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
	// Writable for every user, so that a pid 1 with the wrong ids can connect and accept can report it. Only a process that can enter the
	// directory, or has the socket mounted, reaches it.
	return errors.Join(os.Chmod(d.dir+"/channel", 0o666), os.NewSyscallError("listen", unix.Listen(d.listener, 1)))
}

// start makes the client create and start the container. The client is not killed when this process dies: a container that is half created
// would stay, while one that starts finds no socket to connect to, ends and is removed.
func (d *dockerRun) start(image string) error {
	exe, err := os.Readlink("/proc/self/exe")
	if err == nil {
		err = d.cli.speakable(exe)
	}
	if err != nil {
		return &Error{Stage: "docker", Op: "look for nsrun's binary", Err: err}
	}
	args := append([]string{"run", "--name=" + d.name}, d.box.Args...)
	args = append(args, d.cli.bind(exe, remoteBinary, true), d.cli.bind(d.dir+"/channel", channelName, false))
	for _, p := range d.box.view.points {
		if p.file >= 0 {
			args = append(args, d.cli.bind(d.file(p.file), p.op.Dest, true))
		}
	}
	if d.box.filter != nil {
		args = append(args, "--security-opt=seccomp="+d.dir+"/seccomp")
	} else {
		args = append(args, "--security-opt=seccomp=unconfined")
	}
	client := d.cli.command(context.Background(), append(args, image, "container-init")...)
	client.Stdout, client.Stderr = d.clientOutput, d.clientOutput
	client.ExtraFiles = []*os.File{d.sweeper.lifeline}
	if err := client.Start(); err != nil {
		return &Error{Stage: "docker", Op: "start", Path: d.cli.Path, Err: err}
	}
	d.client = client
	if d.clientFD, err = unix.PidfdOpen(client.Process.Pid, 0); err != nil {
		return &Error{Stage: "docker", Op: "pidfd_open", Err: err}
	}
	return nil
}
