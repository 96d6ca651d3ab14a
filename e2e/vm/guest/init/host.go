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

// makePlaces makes what every host of a boot has.
func makePlaces(h guest.Host) error {
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
	if err := os.MkdirAll("/dev/shm", 0o755); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(guest.WritableTmp, 0o777), os.Chmod(guest.WritableTmp, 0o777|os.ModeSticky), os.MkdirAll("/home/tester", 0o750), os.Chown("/home/tester", tester, tester)); err != nil {
		return err
	}
	return errors.Join(loopback(), raiseLimits(), unix.Sethostname([]byte("nsrun-vm")))
}

// makeHost makes what one host of a boot has and another may not have, and returns how to take it back, the last first.
func makeHost(h guest.Host) (undo []func() error, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("host %+v: %w", h, err)
		}
	}()
	if h.InitramfsTop {
		undo = append(undo, leaveInitramfs)
	}
	if !h.NoShm {
		if err := (place{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"}).mount(); err != nil {
			return nil, err
		}
		undo = append(undo, func() error { return unix.Unmount("/dev/shm", unix.MNT_DETACH) })
	}
	takeAway, err := mountCgroups(h.Cgroup)
	if err != nil {
		return nil, err
	}
	undo = append(undo, takeAway)
	lifted, err := lockDown(h)
	return append(undo, lifted...), err
}

// leaveInitramfs binds the root over itself: the initramfs has no parent that pivot_root(2) could put it under.
func leaveInitramfs() error {
	const stage = "/.stage"
	if err := os.Mkdir(stage, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil { // from below a shared mount, nothing can be moved: mount(2)
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("/", stage, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind / on %s: %w", stage, err)
	}
	if err := os.Chdir(stage); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s to /: %w", stage, err)
	}
	return errors.Join(unix.Chroot("."), os.Chdir("/"), os.Remove(stage))
}

// raiseLimits gives what systemd gives a session, since a kernel's own limits differ: before 5.16 memory to lock was 64 KiB.
func raiseLimits() error {
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 8 << 20, Max: 8 << 20}),
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 524288}))
}

// lockDown does what takes something away, and returns how to take that back.
func lockDown(h guest.Host) (undo []func() error, err error) {
	if h.AppArmor != "" {
		profiles, err := os.ReadFile(h.AppArmor)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile("/sys/kernel/security/apparmor/.load", profiles, 0); err != nil {
			return nil, err
		}
	}
	for key, value := range h.Sysctl {
		file := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
		was, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			return nil, err
		}
		undo = append(undo, func() error { return os.WriteFile(file, was, 0) })
	}
	if h.ProcOptions != "" {
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_REMOUNT|quiet, h.ProcOptions); err != nil {
			return nil, fmt.Errorf("remount /proc with %s: %w", h.ProcOptions, err)
		}
		undo = append(undo, func() error { return unix.Mount("proc", "/proc", "proc", unix.MS_REMOUNT|quiet, "hidepid=0") })
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil && !h.InitramfsTop { // as systemd does
		return nil, err
	}
	if h.ReadOnly && !h.InitramfsTop {
		return undo, unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return undo, nil
}

const cgroupRoot = "/sys/fs/cgroup"

// v1Controllers are those that a host with cgroup v1 has one hierarchy each for.
var v1Controllers = [...]string{"cpu", "memory", "pids", "devices", "freezer", "cpuset"}

// mountCgroups mounts what a host of that kind has, and in v2 gives all controllers to the groups below. It returns how to take it back.
func mountCgroups(kind string) (undo func() error, err error) {
	switch kind {
	case "none":
		return func() error { return nil }, nil
	case "", "v2":
		if err := (place{"cgroup2", cgroupRoot, "cgroup2", quiet, "nsdelegate"}).mount(); err != nil {
			return nil, err
		}
		list, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
		for _, c := range strings.Fields(string(list)) {
			err = errors.Join(err, os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+"+c), 0))
		}
		return unmountCgroups, err
	case "v1", "hybrid":
		if err := (place{"cgroup", cgroupRoot, "tmpfs", quiet, "mode=755"}).mount(); err != nil {
			return nil, err
		}
		for _, c := range v1Controllers {
			if err := (place{c, filepath.Join(cgroupRoot, c), "cgroup", quiet, c}).mount(); err != nil {
				return nil, err
			}
		}
		if kind == "hybrid" {
			return unmountCgroups, place{"cgroup2", cgroupRoot + "/unified", "cgroup2", quiet, "nsdelegate"}.mount()
		}
		return unmountCgroups, nil
	}
	return nil, fmt.Errorf("cgroups of kind %q", kind)
}

// unmountCgroups removes the steps' groups and unmounts the hierarchies. A controller can go to a hierarchy of the other version only when
// this one has no group left, not even a removed one (rebind_subsystems in kernel/cgroup/cgroup.c): a removed memory group survives while
// pages are charged to it, so unmountCgroups reclaims them first.
func unmountCgroups() error {
	roots := []string{cgroupRoot}
	if _, err := os.Stat(cgroupRoot + "/cgroup.procs"); err != nil {
		roots, _ = filepath.Glob(cgroupRoot + "/*")
	}
	for _, root := range roots {
		if err := removeGroups(root); err != nil {
			return err
		}
	}
	_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
	for _, root := range roots {
		if err := unix.Unmount(root, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", root, err)
		}
	}
	if len(roots) == 1 && roots[0] == cgroupRoot {
		return nil
	}
	return unix.Unmount(cgroupRoot, 0)
}

// removeGroups removes all groups below one, the deepest first. The next host must not get one that has another owner.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			below := filepath.Join(dir, e.Name())
			err = errors.Join(err, removeGroups(below))
			_ = os.WriteFile(filepath.Join(below, "memory.force_empty"), []byte("0"), 0) // v1 only
			if rmdir := unix.Rmdir(below); rmdir != nil {
				err = errors.Join(err, fmt.Errorf("remove %s: %w", below, rmdir))
			}
		}
	}
	return err
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
