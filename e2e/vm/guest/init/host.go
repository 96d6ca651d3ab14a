package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// quiet is how most of a host's file systems are mounted.
const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// place is one mount.
type place struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (p place) mount() error {
	if err := os.MkdirAll(p.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(p.source, p.target, p.kind, p.flags, p.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", p.kind, p.target, err)
	}
	return nil
}

// tester is the ordinary user; passwd(5) of the guests has it.
const tester = 1000

// makeHost makes the host.
func makeHost(h guest.Host) error {
	if !h.InitramfsTop {
		if err := leaveInitramfs(); err != nil {
			return err
		}
	}
	places := []place{
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666"},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"home", "/home", "tmpfs", 0, "mode=755"}, // as where it is part of the root
	}
	if !h.NoShm {
		places = append(places, place{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"})
	}
	if !h.ReadOnly {
		places = append(places, place{"tmp", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"})
	}
	for _, p := range places {
		if err := p.mount(); err != nil {
			return err
		}
	}
	_ = place{"security", "/sys/kernel/security", "securityfs", quiet, ""}.mount() // not in every kernel
	_ = place{"mqueue", "/dev/mqueue", "mqueue", quiet, ""}.mount()
	for _, name := range []string{"fd", "stdin", "stdout", "stderr"} {
		target := map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}[name]
		if err := os.Symlink("/proc/self/fd"+target, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	_ = os.Chmod("/dev/net/tun", 0o666) // as udev does, where there is one
	if err := errors.Join(os.Mkdir(guest.WritableTmp, 0o777), os.Chmod(guest.WritableTmp, 0o777|os.ModeSticky), os.MkdirAll("/home/tester", 0o750), os.Chown("/home/tester", tester, tester)); err != nil {
		return err
	}
	if err := errors.Join(loopback(), raiseLimits(), unix.Sethostname([]byte("nsrun-vm")), mountCgroups(h.Cgroup)); err != nil {
		return err
	}
	return lockDown(h)
}

// leaveInitramfs binds the root over itself: the initramfs has no parent that pivot_root(2) could put it under.
func leaveInitramfs() error {
	const stage = "/.stage"
	if err := os.Mkdir(stage, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", stage, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := os.Chdir(stage); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return errors.Join(unix.Chroot("."), os.Chdir("/"), os.Remove(stage))
}

// raiseLimits gives what systemd gives a session, since a kernel's own limits differ: before 5.16 memory to lock was 64 KiB.
func raiseLimits() error {
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 8 << 20, Max: 8 << 20}),
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 524288}))
}

// lockDown does what takes something away.
func lockDown(h guest.Host) error {
	if h.AppArmor != "" {
		profiles, err := os.ReadFile(h.AppArmor)
		if err != nil {
			return err
		}
		if err := os.WriteFile("/sys/kernel/security/apparmor/.load", profiles, 0); err != nil {
			return err
		}
	}
	for key, value := range h.Sysctl {
		if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(key, ".", "/"), []byte(value), 0); err != nil {
			return err
		}
	}
	if h.ProcOptions != "" {
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_REMOUNT|quiet, h.ProcOptions); err != nil {
			return fmt.Errorf("remount /proc with %s: %w", h.ProcOptions, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil && !h.InitramfsTop { // as systemd does
		return err
	}
	if h.ReadOnly {
		return unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return nil
}

const cgroupRoot = "/sys/fs/cgroup"

// v1Controllers are those that a host with cgroup v1 has one hierarchy each for.
var v1Controllers = [...]string{"cpu", "memory", "pids", "devices", "freezer", "cpuset"}

// mountCgroups mounts what a host of that kind has, and in v2 gives all controllers to the groups below.
func mountCgroups(kind string) error {
	switch kind {
	case "none":
		return nil
	case "", "v2":
		if err := (place{"cgroup2", cgroupRoot, "cgroup2", quiet, "nsdelegate"}).mount(); err != nil {
			return err
		}
		list, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
		for _, c := range strings.Fields(string(list)) {
			err = errors.Join(err, os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+"+c), 0))
		}
		return err
	case "v1", "hybrid":
		if err := (place{"cgroup", cgroupRoot, "tmpfs", quiet, "mode=755"}).mount(); err != nil {
			return err
		}
		for _, c := range v1Controllers {
			if err := (place{c, filepath.Join(cgroupRoot, c), "cgroup", quiet, c}).mount(); err != nil {
				return err
			}
		}
		if kind == "hybrid" {
			return place{"cgroup2", cgroupRoot + "/unified", "cgroup2", quiet, "nsdelegate"}.mount()
		}
		return nil
	}
	return fmt.Errorf("cgroups of kind %q", kind)
}

// loopback brings it up.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
