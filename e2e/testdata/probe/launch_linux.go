package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchActs prepare something that a caller of nsrun could bring along, and execute the rest of the words.
func launchActs() map[string]act {
	return map[string]act{
		"close-std":    {2, closeStd},
		"signal-state": {1, signalState},
		"keyring":      {1, keyring},
		"namespace":    {3, namespace},
		"in-namespace": {3, inNamespace},
	}
}

func execute(words []string) error {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, words, os.Environ())
}

// closeStd closes those of 0, 1, 2 whose bit is set in its first word.
func closeStd(args []string) error {
	mask, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for fd := range 3 {
		if mask&(1<<fd) != 0 {
			unix.Close(fd)
		}
	}
	return execute(args[1:])
}

// signalState ignores SIGPIPE, SIGCHLD and SIGUSR1, blocks SIGTERM and SIGUSR2, and sets the umask to 0.
func signalState(args []string) error {
	runtime.LockOSThread()
	signal.Ignore(unix.SIGPIPE, unix.SIGCHLD, unix.SIGUSR1)
	unix.Umask(0)
	set := [1]uint64{1<<(unix.SIGTERM-1) | 1<<(unix.SIGUSR2-1)}
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&set)), 0, 8, 0, 0); errno != 0 {
		return errno
	}
	return execute(args)
}

// keyring puts a key into a new session keyring.
func keyring(args []string) error {
	runtime.LockOSThread()
	if _, err := unix.KeyctlJoinSessionKeyring("nsrun-e2e"); err != nil {
		return na("session keyring: %v", err)
	}
	if _, err := unix.AddKey("user", keyName, []byte("canary"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		return na("key: %v", err)
	}
	return execute(args)
}

// namespace runs in-namespace in new user and mount namespaces, with the privilege over them: a host of our own making.
func namespace(args []string) error {
	same := func(n int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: n, HostID: n, Size: 1}}
	}
	cmd := exec.Command(os.Args[0], append([]string{"in-namespace"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL,
		UidMappings: same(os.Getuid()), GidMappings: same(os.Getgid()), AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE}}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return na("namespace: %v", err)
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// inNamespace changes the host as its first word says, at the place that its second one names, and executes the rest.
func inNamespace(args []string) error {
	runtime.LockOSThread() // which alone gives up its ambient capabilities, and executes the rest
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return na("private mounts: %v", err)
	}
	place, err := args[1], error(nil)
	switch args[0] {
	case "nosymfollow":
		const msNoSymFollow = 256
		err = unix.Mount("tmpfs", place, "tmpfs", 0, "")
		if err == nil {
			err = os.WriteFile(filepath.Join(place, "file"), []byte("canary\n"), 0o644)
		}
		if err == nil {
			err = os.Symlink("file", filepath.Join(place, "link"))
		}
		if err == nil {
			err = unix.Mount("", place, "", unix.MS_REMOUNT|unix.MS_BIND|msNoSymFollow, "")
		}
	case "null": // a regular file where /dev/null should be
		err = unix.Mount(place, "/dev/null", "", unix.MS_BIND, "")
	case "proc": // something that only looks like procfs
		err = unix.Mount("tmpfs", "/proc", "tmpfs", 0, "")
		if err == nil {
			err = os.MkdirAll("/proc/self", 0o755)
		}
		for _, name := range strings.Fields("uid_map gid_map setgroups") {
			if err == nil {
				err = os.WriteFile("/proc/self/"+name, nil, 0o666)
			}
		}
	case "no-spaces":
		err = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	default:
		err = fmt.Errorf("unknown change %q", args[0])
	}
	if err != nil {
		return na("%s: %v", args[0], err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return na("ambient capabilities: %v", err)
	}
	return execute(args[2:])
}
