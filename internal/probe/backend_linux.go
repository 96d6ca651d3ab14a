package probe

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// backend is another program that makes sandboxes, and how it is asked for its version.
type backend struct {
	name  facts.Name
	ask   []string
	word  string // before the version
	apart bool   // it gets directories of its own, which are removed
	// try has it make a sandbox for a program that does not exist: it must come to that. Installed is not enough, as in a container that
	// refuses namespaces to everybody.
	try []string
}

// Docker's is the daemon's version, so that a client alone is a no. Podman needs no daemon: "podman version" makes its storage and leaves a
// process behind, and even --version makes directories where it keeps its state.
var backends = [...]backend{
	{facts.Bwrap, []string{"--version"}, "bubblewrap ", false,
		[]string{"--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", noProgram}},
	{facts.Docker, []string{"version", "--format", "{{.Server.Version}}"}, "", false, nil},
	{facts.Podman, []string{"--version"}, "podman version ", true, nil},
}

const noProgram = "/nsrun-no-such-program"

// backendTime bounds the wait for a program of another backend. It is generous: on a busy machine bubblewrap has taken more than three seconds,
// and a backend that is there must not be reported as missing.
const backendTime = 10 * time.Second

// silence begins what is said of one that takes longer.
const silence = "no answer"

// Backends returns f with what there is of bubblewrap, Docker and Podman on PATH. All are asked at once.
func Backends(f facts.Facts) facts.Facts {
	path := os.Getenv("PATH")
	var errs [len(backends)]error
	var printed [len(backends)]string
	var wg sync.WaitGroup
	for i, e := range backends {
		wg.Go(func() { printed[i], errs[i] = e.probe(path, backendTime) })
	}
	wg.Wait()
	for i, e := range backends {
		f = f.With(e.name, facts.Answer{}) // a copy: f is the caller's
		if errs[i] == nil && e.name == facts.Podman && f.State(facts.UserNS) == facts.No && !mayMount() {
			errs[i] = no("podman needs user namespaces, or root with CAP_SYS_ADMIN", "allow what user_namespace above asks for")
		}
		found(f, e.name, printed[i], errs[i])
	}
	return f
}

// mayMount reports whether this process has CAP_SYS_ADMIN, which real root has, and root in a container has not.
func mayMount() bool {
	var sets [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
	return err == nil && sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// probe finds the program and returns its version and path.
func (e backend) probe(path string, timeout time.Duration) (string, error) {
	program := find(path, string(e.name))
	if program == "" {
		return "", no("there is no "+string(e.name)+" on PATH", "")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out, printed, err := e.run(ctx, program, e.ask)
	version := strings.TrimPrefix(firstLine(out), e.word)
	if err == nil && version == "" {
		return "", fmt.Errorf("%s gives no version", program)
	}
	if err == nil && e.try != nil {
		if _, printed, err = e.run(ctx, program, e.try); strings.Contains(printed, noProgram) {
			err = nil // it has come to the program
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", e.refused(program, fmt.Sprintf(silence+" within %v", timeout))
	case err != nil && printed != "":
		return "", e.refused(program, lastLine(printed))
	case err != nil:
		return "", e.refused(program, err.Error())
	}
	return version + " (" + program + ")", nil
}

// run runs the program in a process group of its own, so that what it has started ends with it.
func (e backend) run(ctx context.Context, program string, args []string) (out, printed string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	if e.apart {
		dir, err := spareDir()
		if err != nil {
			return "", "", err
		}
		defer os.RemoveAll(dir)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	}
	var stdout, stderr head
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = kill, time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		kill()
	}
	return stdout.String(), stderr.String(), err
}

// spareDir makes a directory, in memory if it can: a probe leaves even the times of the caller's directories as they are.
func spareDir() (string, error) {
	pattern := fmt.Sprintf("nsrun-probe-%d-", os.Getpid())
	if dir, err := os.MkdirTemp("/dev/shm", pattern); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", pattern)
}

// refused tells a daemon that does not answer from a program that does not work.
func (e backend) refused(program, printed string) error {
	if e.name != facts.Docker {
		fix := "mend what " + program + " " + strings.Join(e.ask, " ") + " says"
		if e.try != nil {
			fix = "allow what user_namespace and the other namespaces above ask for"
		}
		return no(program+": "+printed, fix)
	}
	daemon := os.Getenv("DOCKER_HOST")
	for word := range strings.FieldsSeq(printed) {
		if i := strings.Index(word, "unix://"); i >= 0 {
			daemon = strings.TrimRight(word[i:], ".:,\"'")
			break
		}
	}
	if daemon == "" {
		daemon = "unix:///var/run/docker.sock"
	}
	fix := "systemctl start docker"
	if _, err := os.Stat("/run/systemd/system"); err != nil { // sd_booted(3)
		fix = "start dockerd"
	}
	if os.Geteuid() != 0 {
		fix = "as root: " + fix
	}
	switch {
	case strings.HasPrefix(printed, silence):
		fix = "restart the daemon"
	case strings.Contains(printed, "permission denied"):
		fix = "run as root: whoever may use that socket is root on this host"
	case !strings.HasPrefix(daemon, "unix://"):
		fix = "unset DOCKER_HOST, or start the daemon there"
	}
	return no("the daemon at "+daemon+" does not answer: "+printed, fix)
}

// find looks through the absolute directories of a PATH for an executable that is not this program itself, which may go by the name bwrap.
func find(path, name string) string {
	self, _ := os.Stat("/proc/self/exe")
	for _, dir := range filepath.SplitList(path) {
		program := filepath.Join(dir, name)
		info, err := os.Stat(program)
		if !filepath.IsAbs(dir) || err != nil || !info.Mode().IsRegular() || unix.Access(program, unix.X_OK) != nil || self != nil && os.SameFile(self, info) {
			continue
		}
		return program
	}
	return ""
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, 4096-h.Len()))])
	return len(p), nil
}

// lastLine is the error: warnings come before.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return firstLine(text[strings.LastIndex(text, "\n")+1:])
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 300)]
}
