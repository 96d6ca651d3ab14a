// Vm boots a kernel of the tests' matrix and gives a shell in it, with nsrun on PATH, or runs one command there and exits with its code:
//
//	go run ./e2e/cmd/vm -kernel 6.1
//	go run ./e2e/cmd/vm -kernel 5.10 -root busybox -user tester -- nsrun doctor
//
// The shell's end is the machine's. The guest has no network and nothing of this machine's files but nsrun, and with -with DIR a copy of
// that directory at /with. With -arch arm64 on another processor all is emulated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/nsrun/nsrun/e2e/vm"
	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// options are the command line's.
type options struct {
	line, root, user, arch string
	append, sysctl, with   string
	memory                 int
	host                   guest.Host
	command                []string
}

func main() {
	var o options
	var names []string
	for _, l := range vm.Lines {
		names = append(names, l.Name)
	}
	flag.StringVar(&o.line, "kernel", "6.12", "line of the kernel: "+strings.Join(names, ", "))
	flag.StringVar(&o.root, "root", "debian", "programs: debian, busybox, musl")
	flag.StringVar(&o.user, "user", "root", "root or tester")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "amd64 or arm64")
	flag.StringVar(&o.append, "append", "", "words for the kernel's command line")
	flag.StringVar(&o.sysctl, "sysctl", "", "settings KEY=VALUE, separated by commas")
	flag.StringVar(&o.with, "with", "", "directory of this machine's that the guest has a copy of, at "+withDir)
	flag.IntVar(&o.memory, "memory", 1024, "MB")
	flag.StringVar(&o.host.Cgroup, "cgroup", "v2", "control groups: v2, v1, hybrid, none")
	flag.StringVar(&o.host.ProcOptions, "proc", "", "options of /proc, such as hidepid=2")
	flag.BoolVar(&o.host.ReadOnly, "read-only", false, "a root that cannot be written to, and no /tmp")
	flag.BoolVar(&o.host.InitramfsTop, "initramfs", false, "a root that cannot be pivoted away from before Linux 7.0")
	flag.Parse()
	o.command = flag.Args()
	code, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		code = 125
	}
	os.Exit(code)
}

func run(o options) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP) // the directory is to go in any case
	defer stop()
	line, found := vm.FindLine(o.line)
	if !found {
		return 0, fmt.Errorf("no kernel %q in the matrix: see -help", o.line)
	}
	id, found := map[string]int{"root": 0, "tester": 1000}[o.user]
	if !found {
		return 0, fmt.Errorf("no user %q in the guest: root or tester", o.user)
	}
	for _, setting := range strings.Split(o.sysctl, ",") {
		if key, value, ok := strings.Cut(setting, "="); ok {
			if o.host.Sysctl == nil {
				o.host.Sysctl = map[string]string{}
			}
			o.host.Sysctl[key] = value
		}
	}
	dir, err := os.MkdirTemp("", "nsrun-vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	kernel, err := vm.FetchKernel(line.Name, line.Suite, o.arch)
	if err != nil {
		return 0, err
	}
	root, err := o.tree()
	if err != nil {
		return 0, err
	}
	step := guest.Step{Name: o.user, UID: id, Argv: []string{"/bin/sh"}, Dir: "/", Seconds: 24 * 3600, Console: true,
		Env: []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin:" + vm.BuiltDir + "/cmd"}}
	if len(o.command) > 0 {
		step.Argv, step.Console = append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, o.command...), false
	}
	image, initramfs, err := vm.Prepare(dir, kernel, root, guest.Plan{Hosts: []guest.Hosted{{Host: o.host, Steps: []guest.Step{step}}}})
	if err != nil {
		return 0, err
	}
	m := vm.Machine{Arch: o.arch, Accel: vm.FindAccel(), MemoryMB: o.memory, Kernel: image, Initramfs: initramfs, Append: o.append, Dir: dir}
	if o.arch != runtime.GOARCH {
		m.Accel = "tcg"
	}
	if step.Console {
		return 0, shell(ctx, m)
	}
	return command(ctx, m)
}

// tree is the root that was asked for, with nsrun.
func (o options) tree() (vm.Tree, error) {
	make, found := map[string]func(string) (vm.Tree, error){"debian": vm.DebianRoot, "busybox": vm.BusyboxRoot, "musl": vm.MuslRoot}[o.root]
	if !found {
		return nil, fmt.Errorf("no root %q: debian, busybox or musl", o.root)
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w; vm is run in the module's directory", err)
	}
	root, err := make(o.arch)
	if err != nil {
		return nil, err
	}
	if err := o.addWith(root); err != nil {
		return nil, err
	}
	return root, root.Payload(strings.TrimSpace(string(module)), o.arch, []string{"cmd/nsrun"}, nil)
}

// withDir is where a guest has the directory of -with.
const withDir = "/with"

// addWith adds the directory of -with. A link to one is followed, links in it are not.
func (o options) addWith(root vm.Tree) error {
	if o.with == "" {
		return nil
	}
	dir, err := filepath.EvalSymlinks(o.with)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("-with %s: not a directory", o.with))
	}
	return root.AddTree(withDir, dir)
}

// bootTimeout bounds what a person does in a guest.
const bootTimeout = 24 * time.Hour

// shell gives this process's terminal to the guest's shell.
func shell(ctx context.Context, m vm.Machine) error {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return errors.New("a shell takes a terminal: give a command after --")
	}
	state, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(fd, state) }()
	m.Terminal = struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout}
	return m.Boot(ctx, bootTimeout, func(guest.Frame) {})
}

// command prints what the guest's command prints.
func command(ctx context.Context, m vm.Machine) (code int, err error) {
	err = m.Boot(ctx, bootTimeout, func(f guest.Frame) {
		switch f.Kind {
		case guest.Out:
			os.Stdout.Write(f.Data)
		case guest.Exit:
			code, _ = strconv.Atoi(string(f.Data))
		}
	})
	return code, err
}
