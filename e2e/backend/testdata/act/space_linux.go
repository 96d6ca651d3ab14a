package main

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func spaceActs() map[string]act {
	return map[string]act{"owns": owns, "hostname": hostname, "accounts": accounts, "ids": ids, "group": group, "report": report}
}

var kinds = []string{"mnt", "pid", "net", "ipc", "uts", "cgroup"}

// owns is done if this user namespace owns any of the process's other namespaces (ioctl_nsfs(2)).
func owns([]string) (any, error) {
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/user", &own); err != nil {
		return nil, err
	}
	var found []string
	for _, kind := range kinds {
		fd, err := unix.Open("/proc/self/ns/"+kind, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		owner, err := unix.IoctlRetInt(fd, unix.NS_GET_USERNS)
		if errors.Is(err, unix.EPERM) { // it is not this one, nor one below
			continue
		}
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(owner, &st); err != nil {
			return nil, err
		}
		if st.Ino == own.Ino && st.Dev == own.Dev {
			found = append(found, kind)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("it owns none of them")
	}
	return found, nil
}

// hostname is done if the host's name is seen somewhere.
func hostname(args []string) (any, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	if unix.ByteSliceToString(uts.Nodename[:]) == args[0] {
		return "uname", nil
	}
	for _, name := range []string{"/proc/sys/kernel/hostname", "/etc/hostname", "/etc/hosts"} {
		if data, _ := os.ReadFile(name); slices.Contains(strings.Fields(string(data)), args[0]) {
			return name, nil
		}
	}
	return unix.ByteSliceToString(uts.Nodename[:]), errors.New("it is nowhere")
}

// accounts is done if one of the host's is in the account files: names, separated by commas.
func accounts(args []string) (any, error) {
	var found []string
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if name, _, _ := strings.Cut(line, ":"); slices.Contains(strings.Split(args[0], ","), name) {
				found = append(found, file+": "+name)
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("they are not there")
	}
	return found, nil
}

// ids is done if all ids mean what they mean on the host.
func ids([]string) (any, error) {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	if found := strings.Join(strings.Fields(string(data)), " "); found != "0 0 4294967295" {
		return found, errors.New("they are mapped")
	}
	return nil, nil
}

// group is done if the process is in a group.
func group(args []string) (any, error) {
	all, err := os.Getgroups()
	if err == nil && !slices.Contains(all, number(args[0])) {
		err = errors.New("it is not among them")
	}
	return all, err
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// report tells what a process finds about itself.
func report([]string) (any, error) {
	found := map[string]any{"uid": os.Getuid(), "gid": os.Getgid()}
	spaces := map[string]string{}
	for _, kind := range append(kinds, "user") {
		spaces[kind], _ = os.Readlink("/proc/self/ns/" + kind)
	}
	found["spaces"] = spaces
	fields := map[string]string{}
	for _, name := range strings.Fields("CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters") {
		fields[name] = status(name)
	}
	found["status"] = fields
	limits, err := os.ReadFile("/proc/self/limits")
	found["limits"] = string(limits)
	pidMax, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	found["pid_max"] = strings.TrimSpace(string(pidMax))
	names := []string{}
	all, _ := net.Interfaces()
	for _, i := range all {
		names = append(names, i.Name)
	}
	found["interfaces"] = names
	return found, err
}
