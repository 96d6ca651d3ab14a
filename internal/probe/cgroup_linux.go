package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// groups fills in what the caller may do with cgroups.
func groups(f facts.Facts, h files) {
	v1, err := groupsV1(h)
	found(f, facts.CgroupV1, v1, err)
	dir, err := groupV2(h)
	found(f, facts.CgroupV2, dir, err)
	socket, err := answering(h, f.UID)
	found(f, facts.SystemdScope, socket, err)
	for _, name := range []facts.Name{facts.CgroupV2, facts.SystemdScope} {
		if a := f.Answers[name]; a.State == facts.No {
			a.Fix = groupFix(f, h, name)
			f.Answers[name] = a
		}
	}
	if f.Manager == nil || err != nil {
		return
	}
	f.Manager.Socket, f.Manager.Bus = socket, isBus(socket) // who answers is better than who is there
	if a := f.Answers[facts.CgroupV2]; a.State == facts.No && (a.Fix == "" || strings.HasPrefix(a.Fix, "start nsrun in a delegated scope")) {
		a.Fix = "nsrun run needs nothing, as it asks the service manager for a scope; start anything else by systemd-run --user --scope -p Delegate=yes ..."
		if f.UID == 0 {
			a.Fix = strings.Replace(a.Fix, " --user", "", 1)
		}
		f.Answers[facts.CgroupV2] = a
	}
}

// groupFix is how this caller, here, comes by a cgroup.
func groupFix(f facts.Facts, h files, name facts.Name) string {
	fix := f.Answers[name].Fix
	switch {
	case f.InContainer() && !h.booted():
		return "limit the container itself, or start it with a cgroup tree that it may write to"
	case f.InContainer() && strings.HasPrefix(fix, "boot with"):
		return "on the host: " + fix
	case name == facts.CgroupV2 && needsDelegate(f, h):
		return delegate
	case name == facts.CgroupV2 && fix == "" && f.UID == 0 && h.booted():
		return "start nsrun in a delegated scope: systemd-run --scope -p Delegate=yes nsrun ..."
	}
	return fix
}

// groupV2 looks for a cgroup that children can be made in: the caller's own, or the one above it.
func groupV2(h files) (detail string, err error) {
	p, mounted := h.placeV2()
	switch {
	case !mounted:
		return "", no("no cgroup tree of version 2 is mounted", "")
	case p.dir == "":
		return "", no("the caller's cgroup lies outside of what is mounted", "start the container with a cgroup namespace of its own")
	}
	dirs := []string{p.dir}
	if !p.top {
		dirs = append(dirs, filepath.Dir(p.dir))
	}
	var refused []string
	fix := ""
	for _, dir := range dirs {
		controllers := h.text(strings.TrimPrefix(filepath.Join(dir, "cgroup.controllers"), "/"))
		if missing := lacks(controllers); len(missing) > 0 {
			refused = append(refused, fmt.Sprintf("%s has not got the controllers %s", dir, strings.Join(missing, " ")))
			if len(h.placesV1()) > 0 {
				refused[len(refused)-1] += ", which are version 1's here"
				fix = "boot with systemd.unified_cgroup_hierarchy=1"
				if !h.booted() {
					fix = "boot with cgroup_no_v1=all"
				}
			}
			continue
		}
		if err := makeGroup(dir); err != nil {
			refused = append(refused, err.Error())
			continue
		}
		return dir + " (" + controllers + ")", nil
	}
	return "", no(strings.Join(refused, "; "), fix)
}

// delegate is what helps where systemd, which would do it, does not run the host.
const delegate = "mount a cgroup tree of version 2 and have a group of it delegated to you (cgroups(7)): systemd, which would do it, does not run this host"

// Delegation adds to quick facts how to get a cgroup, if it is not by systemd.
func Delegation(f facts.Facts) facts.Facts {
	if len(f.Groups) > 0 || f.Manager != nil || !needsDelegate(f, thisHost()) {
		return f
	}
	return f.With(facts.CgroupV2, facts.Answer{State: facts.Unknown, Fix: delegate})
}

// needsDelegate reports whether the best that is known to get a cgroup is systemd, and that does not run the host.
func needsDelegate(f facts.Facts, h files) bool {
	row, _ := facts.Lookup(facts.CgroupV2)
	return f.Fix(facts.CgroupV2) == row.Fix && !h.booted()
}

// makeGroup makes a cgroup and removes it. Moving a process into it needs cgroup.procs to be writable too: cgroups(7), delegation.
func makeGroup(dir string) error {
	child := filepath.Join(dir, fmt.Sprintf("nsrun-probe-%d", os.Getpid()))
	err := os.Mkdir(child, 0o755)
	if errors.Is(err, fs.ErrExist) && os.Remove(child) == nil { // of a process that died here, and had this number
		err = os.Mkdir(child, 0o755)
	}
	if err != nil {
		return err
	}
	err = unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK)
	if gone := os.Remove(child); gone != nil {
		return gone
	}
	if err != nil {
		return fmt.Errorf("%s/cgroup.procs: %w", dir, err)
	}
	return nil
}

// groupsV1 looks whether the caller may write to its own cgroups of version 1. It makes none: what is made there outlives mistakes.
func groupsV1(h files) (detail string, err error) {
	places := h.placesV1()
	if len(places) == 0 {
		return "", no("no cgroup tree of version 1 with memory, pids or cpu is mounted", "")
	}
	var has, refused []string
	for _, p := range places {
		controllers := strings.Join(p.controllers, " ")
		switch err := unix.Access(p.dir, unix.W_OK); {
		case p.dir == "":
			refused = append(refused, controllers+": the caller's cgroup lies outside of what is mounted")
		case err != nil:
			refused = append(refused, fmt.Sprintf("%s: %v", p.dir, err))
		default:
			has = append(has, controllers)
		}
	}
	if len(has) == 0 {
		return "", no(strings.Join(refused, "; "), "")
	}
	return strings.Join(has, " "), nil
}

// answering looks for a service manager that takes connections from the caller.
func answering(h files, uid int) (socket string, err error) {
	if !h.booted() {
		return "", no("systemd does not run this host", "have a cgroup delegated in another way, or boot with systemd")
	}
	var refused []string
	for _, socket := range h.managers(uid) {
		if err := connect(socket); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", socket, err))
			continue
		}
		return socket, nil
	}
	return "", no(strings.Join(refused, "; "), "")
}

// connect opens a connection and closes it. It does not wait for one that has no room.
func connect(socket string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && peer.Uid != 0 && peer.Uid != uint32(os.Geteuid()) { // as whoever asks it for a scope insists
		err = fmt.Errorf("it is the user %d's", peer.Uid)
	}
	return err
}
