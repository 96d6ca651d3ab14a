package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// isBwrap reports whether this program was called by the name of bubblewrap's: by argv[0], or by its file where a caller has put
// something else there.
func isBwrap(argv []string) bool {
	if len(argv) == 0 || filepath.Base(argv[0]) == "bwrap" || filepath.Base(argv[0]) == "nsrun" {
		return len(argv) > 0 && filepath.Base(argv[0]) == "bwrap"
	}
	comm, err := os.ReadFile("/proc/self/comm") // the name of the file (proc_pid_comm(5))
	return err == nil && string(comm) == "bwrap\n"
}

// bwrap is the verb: what it does beyond being called by that name is to take the name, which callers look for among processes. The sandbox
// inherits that of the thread which forks it.
func (a *app) bwrap(args []string) int {
	_ = os.WriteFile("/proc/self/comm", []byte("bwrap"), 0)
	return a.bubblewrap("bwrap", args)
}

// bubblewrap is the whole program under its other name: its arguments, its messages, its exit codes.
func (a *app) bubblewrap(argv0 string, args []string) int {
	known := probe.Calls()
	if os.Getenv(layersVariable) != "" {
		known = probe.Quick()
	}
	p, err := bwrap.Parse(args, a.bwrapCaller(argv0), known)
	if err != nil {
		return a.bwrapExit(err)
	}
	if p, err = addLayers(p, known); err != nil {
		return a.bwrapFail(p, err)
	}
	code, err := runner.RunBwrap(p)
	if err != nil {
		return a.bwrapFail(p, err)
	}
	return code
}

// layersVariable is where an operator names protection that is added to every sandbox of this compat mode, or @ and the path of a
// file that does.
const layersVariable = "NSRUN_BWRAP_LAYERS"

func addLayers(p *plan.Plan, f facts.Facts) (*plan.Plan, error) {
	text := os.Getenv(layersVariable)
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		data, err := load.File(name, 1<<16)
		if err != nil {
			return p, fmt.Errorf("%s=@%s: %w", layersVariable, name, err)
		}
		text = string(data)
	} else if text == "" {
		return p, nil
	}
	layers, err := bwrap.ParseLayers(text)
	if err == nil && !layers.Landlock && layers.Seccomp == nil && len(layers.Limits) == 0 {
		err = errors.New("no layer is named; name one, or unset the variable")
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", layersVariable, err)
	}
	added, err := p.Add(layers, f)
	if err != nil {
		return p, fmt.Errorf("%s: %w", layersVariable, err)
	}
	return added, nil
}

func (a *app) bwrapExit(err error) int {
	var exit *bwrap.Exit
	if !errors.As(err, &exit) {
		return a.bwrapFail(&plan.Plan{}, err)
	}
	fmt.Fprint(a.stdout, exit.Stdout)
	fmt.Fprint(a.stderr, exit.Stderr)
	return exit.Code
}

// bwrapFail prints a failure in bubblewrap's words.
func (a *app) bwrapFail(p *plan.Plan, err error) int {
	var failed *runner.Error
	if errors.As(err, &failed) {
		step := bwrap.Step{Stage: failed.Stage, Op: failed.Op, Path: failed.Path, Index: failed.Index}
		fmt.Fprint(a.stderr, bwrap.Message(p, step, strerror(failed.Err)))
	} else {
		fmt.Fprintf(a.stderr, "bwrap: %s\n", printable(err.Error())) // of ours: a layer
	}
	return 1
}

// strerror is the C library's text for an errno: Go's begins with a small letter.
func strerror(err error) string {
	var errno unix.Errno
	text := err.Error()
	if errors.As(err, &errno) {
		text = errno.Error()
	}
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// bwrapCaller is the world outside of a bubblewrap command line.
func (a *app) bwrapCaller(argv0 string) bwrap.Caller {
	read := map[int]bool{}
	return bwrap.Caller{
		Argv0: argv0, Environ: a.environ, UID: os.Getuid(), GID: os.Getgid(), EffectiveUID: os.Geteuid(),
		Caps: capabilities(), Cwd: workingDirectory(), Terminal: terminalName(), Labels: labels(),
		Warn: func(text string) { fmt.Fprint(a.stderr, text) },
		Late: func(fd int) bool {
			var st unix.Stat_t
			late := !read[fd] && inherited(fd) && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG
			read[fd] = read[fd] || late
			return late
		},
		ReadFD: func(fd int) ([]byte, error) {
			if read[fd] || !inherited(fd) { // a number that is closed may have become one of ours
				return nil, errors.New(strerror(unix.EBADF))
			}
			read[fd] = true
			defer unix.Close(fd)
			return io.ReadAll(descriptor(fd))
		},
	}
}

// inherited reports whether a descriptor came from the caller: what Go opens for itself is close-on-exec.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// descriptor is read without the poller, to which it may be unknown.
type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, errors.New(strerror(err))
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// capabilities are those that this process has, or may take.
func capabilities() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0
	}
	return uint64(data[0].Effective|data[0].Permitted) | uint64(data[1].Effective|data[1].Permitted)<<32
}

// workingDirectory lists the names of the working directory: PWD if it names it, as a shell that came through a symlink says. But
// bubblewrap looks when it has covered /tmp, where it then sees nothing.
func workingDirectory() []string {
	real, err := unix.Getwd()
	if err != nil {
		return nil
	}
	pwd := os.Getenv("PWD")
	var a, b unix.Stat_t
	if pwd != "" && !strings.HasPrefix(pwd+"/", "/tmp/") && !strings.HasPrefix(real+"/", "/tmp/") &&
		unix.Stat(pwd, &a) == nil && unix.Stat(".", &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino {
		return []string{pwd}
	}
	return []string{real}
}

// terminalName is the path of the terminal at standard output (ttyname(3)), or empty.
func terminalName() string {
	if !term.IsTerminal(1) {
		return ""
	}
	name, err := os.Readlink("/proc/self/fd/1")
	var at, is unix.Stat_t
	if err != nil || unix.Stat(name, &at) != nil || unix.Fstat(1, &is) != nil || at.Rdev != is.Rdev {
		return ""
	}
	return name
}

// selinuxfs is where an SELinux host asks the kernel whether a context is one (selinux(8)).
const selinuxfs = "/sys/fs/selinux"

// labels checks SELinux contexts, if the host has SELinux.
func labels() func(string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(selinuxfs, &fs); err != nil || fs.Type != unix.SELINUX_MAGIC {
		return nil
	}
	return func(label string) error { return os.WriteFile(selinuxfs+"/context", []byte(label), 0) }
}
