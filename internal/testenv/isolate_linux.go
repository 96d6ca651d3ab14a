package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isolated names the environment variable that tells the test binary which of its three processes it is: "init", or the pid namespace that
// the tests run in.
const isolated = "NSRUN_TEST_ISOLATED"

// Main runs a package's tests by run, usually m.Run of [testing.M]. If the user is root, the tests run in a mount namespace and a pid
// namespace of their own, so that no mount and no process of theirs reaches the machine: the binary starts itself as pid 1 of new
// namespaces, and pid 1 starts it again for the tests. Processes that the tests leave behind are an error. In a virtual machine of TestVM, the
// machine is isolation enough.
//
// TestMain passes the result to os.Exit. Whatever it makes for the tests, it makes in run.
func Main(run func() int) int {
	switch {
	case os.Getuid() != 0 || os.Getenv("NSRUN_TEST_VM") != "" || listing():
		return withState(run)
	case os.Getenv(isolated) == "init" && os.Getpid() == 1:
		return initProcess()
	case os.Getenv(isolated) == "" || os.Getenv(isolated) != pidNamespace(): // a variable that was inherited from elsewhere proves nothing
		return withState(func() int {
			return start("init", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL})
		})
	}
	return run()
}

// withState runs the tests with a directory of state that is not the user's: private and kept home directories lie there.
func withState(run func() int) int {
	const name = "XDG_STATE_HOME"
	if listing() || os.Getenv(name) != "" {
		return run()
	}
	dir, err := os.MkdirTemp("", "nsrun-state-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv(name, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv: a directory of state for the tests:", err)
		return 1
	}
	return run()
}

// pidNamespace names the pid namespace of this process, or is empty without a procfs.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// listing reports whether the binary was asked for the names of its tests only.
func listing() bool {
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "test.list=") {
			return true
		}
	}
	return false
}

// start runs this binary again with the same arguments, as the next of the three processes, passes signals on, and returns its exit code.
func start(role string, attr *syscall.SysProcAttr) int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), isolated+"="+role), attr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process: prctl(2)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: cannot isolate the tests from this machine:", err)
		return 1
	}
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()
	if role != "init" {
		return reap(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	return code(cmd.ProcessState.Sys().(syscall.WaitStatus))
}

func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// initProcess is pid 1: it mounts a procfs of the new namespace, starts the tests, and reaps orphans.
func initProcess() int {
	// Propagation first: a mount must not reach the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: making the tests' mounts private:", err)
		return 1
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: mounting the tests' /proc:", err)
		return 1
	}
	// A test that looks for its own pid inside a sandbox must not find one of the sandbox's few processes. Kernels without
	// CONFIG_CHECKPOINT_RESTORE have no such file, and tests have low pids there.
	_ = os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("10000"), 0)
	result := start(pidNamespace(), nil)
	if left := survivors(); left != "" && result == 0 {
		fmt.Fprintln(os.Stderr, "testenv: the tests passed, but they left processes behind:\n"+left)
		return 1
	}
	return result
}

// reap waits for every child, orphans included, until main has ended, and returns main's exit code.
func reap(main int) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "testenv: waiting for the tests:", err)
			return 1
		case pid == main:
			return code(status)
		}
	}
}

// survivorLimit is how long survivors waits. A test of this package shortens it.
var survivorLimit = Limit(0)

// survivors lists the processes that still run when those that are ending have had time to end.
func survivors() (left string) {
	for end := time.Now().Add(survivorLimit); ; time.Sleep(10 * time.Millisecond) {
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
		left = ""
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			if name, err := os.ReadFile(dir + "/comm"); err == nil && dir != "/proc/1" {
				words, _ := os.ReadFile(dir + "/cmdline")
				left += fmt.Sprintf("%s %s %q\n", filepath.Base(dir), strings.TrimSpace(string(name)), words)
			}
		}
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}
