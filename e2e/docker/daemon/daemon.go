// Package daemon runs a Docker daemon that is a test's own: its data, sockets, processes, mounts and control groups are in places of its
// own, and gone when it is stopped. It makes no networks.
//
//	d, err := daemon.Start(dir) // an empty directory with a short name
//	defer d.Stop()
//	err = d.Import("/path/to/root", "rooms:1")
//	out, err := d.Docker("run", "--rm", "--network=none", "rooms:1", "/bin/true").CombinedOutput()
//
// It protects nothing: who can open the daemon's socket is root.
package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// ErrMissing means that this machine lacks what it takes; the text says what.
var ErrMissing = errors.New("no Docker daemon can be started here")

// Daemon is a running dockerd.
type Daemon struct {
	Dir  string
	Host string // for DOCKER_HOST

	cmd    *exec.Cmd
	ended  chan error
	groups string   // name of its control groups
	before []string // of places that daemons make outside of Dir, those that were there
}

// Start starts a daemon that keeps everything in dir. It is root's.
func Start(dir string) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it takes root", ErrMissing)
	}
	for _, name := range []string{"dockerd", "docker", "containerd", "runc"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%w: %s is not installed (package docker.io)", ErrMissing, name)
		}
	}
	d := &Daemon{Dir: dir, Host: "unix://" + dir + "/docker.sock", ended: make(chan error, 1), before: present(), groups: strings.ReplaceAll(dir[1:], "/", "-")}
	config, options := filepath.Join(dir, "daemon.json"), "{}"
	if version, err := exec.Command("dockerd", "--version").Output(); err == nil && strings.Contains(string(version), " version 20.") {
		options = fmt.Sprintf(`{"deprecated-key-path": %q}`, dir+"/key.json") // or it would be in /etc/docker; newer ones do not know the word
	}
	if err := errors.Join(os.WriteFile(config, []byte(options), 0o600), os.MkdirAll(dir+"/tmp", 0o700)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command("dockerd", "--config-file="+config, "--data-root="+dir+"/data", "--exec-root="+dir+"/exec", "--pidfile="+dir+"/pid",
		"--host="+d.Host, "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs",
		"--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=/"+d.groups)
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + dir, "DOCKER_TMPDIR=" + dir + "/tmp"}
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM, // of the thread below
		Unshareflags: syscall.CLONE_NEWNS} // what containers mount is nobody else's to see, and goes with the daemon
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			d.ended <- d.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return d, d.await(time.Now().Add(time.Minute))
}

// await waits until the daemon answers.
func (d *Daemon) await(until time.Time) error {
	for {
		if d.Docker("version").Run() == nil {
			return nil
		}
		select {
		case err := <-d.ended:
			d.ended <- err
			return errors.Join(fmt.Errorf("dockerd has ended: %w\n%s", err, d.Log()), d.Stop())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(until) {
			return errors.Join(fmt.Errorf("dockerd does not answer\n%s", d.Log()), d.Stop())
		}
	}
}

// Pid is the daemon's, whose mount namespace is its own.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Docker is a call of the client.
func (d *Daemon) Docker(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.Dir, "DOCKER_HOST=" + d.Host}
	return cmd
}

// Import makes an image of what is in a directory.
func (d *Daemon) Import(root, image string) error {
	pack := exec.Command("tar", "--directory="+root, "--create", "--numeric-owner", ".")
	pipe, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	take := d.Docker("import", "-", image)
	take.Stdin = pipe
	if err := pack.Start(); err != nil {
		return err
	}
	text, err := take.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker import: %w\n%s", err, text)
	}
	return errors.Join(err, pack.Wait())
}

// Log returns the end of what the daemon has said.
func (d *Daemon) Log() string {
	data, _ := os.ReadFile(filepath.Join(d.Dir, "log"))
	return string(data[max(0, len(data)-8<<10):])
}

// Stop ends the daemon and all that it has started and made, but for Dir itself. What it finds left over is an error.
func (d *Daemon) Stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	var errs []error
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		errs = append(errs, errors.New("dockerd does not end"))
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
	for _, pid := range d.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for until := time.Now().Add(30 * time.Second); len(d.processes()) > 0 && time.Now().Before(until); {
		time.Sleep(50 * time.Millisecond)
	}
	errs = append(errs, d.removeMade())
	return errors.Join(errs...)
}

// processes lists those that name the directory: containerd, its shims, and runc.
func (d *Daemon) processes() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		words, err := os.ReadFile(name)
		var pid int
		if _, scanErr := fmt.Sscanf(name, "/proc/%d/", &pid); err == nil && scanErr == nil && pid != os.Getpid() &&
			daemons(string(words)) && strings.Contains(string(words), d.Dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func daemons(cmdline string) bool {
	program, _, _ := strings.Cut(cmdline, "\x00")
	switch base := filepath.Base(program); base {
	case "containerd", "runc", "dockerd", "docker-proxy":
		return true
	default:
		return strings.HasPrefix(base, "containerd-shim")
	}
}
