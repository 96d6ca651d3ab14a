package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// table is a fingerprint: for each fact its lines.
type table map[string][]string

// facts lists what can be told. A word list=PATH adds what is below a path, read=PATH its content.
func facts(words []string) table {
	t := table{}
	t["argv"] = os.Args
	t["env"] = slices.Sorted(slices.Values(os.Environ()))
	cwd := make([]byte, 4096)
	n, err := unix.Getcwd(cwd)
	t.add("cwd", "%s %v", strings.TrimRight(string(cwd[:max(n, 0)]), "\x00"), err)
	statusFacts(t)
	processFacts(t)
	t["fd"] = descriptors()
	t["mount"] = mounts()
	t["net"] = interfaces()
	for _, name := range []string{"uid_map", "gid_map", "setgroups"} {
		t[name] = lines(proc("self/" + name))
	}
	for _, name := range []string{"user", "mnt", "pid", "ipc", "net", "uts", "cgroup", "time"} {
		link, err := readProcLink("self/ns/" + name)
		t.add("ns."+name, "%s", orErr(link, err))
	}
	for _, word := range words {
		verb, path, _ := strings.Cut(word, "=")
		switch verb {
		case "list":
			t["list "+path] = list(path)
		case "read":
			data, err := os.ReadFile(path)
			t.add("read "+path, "%s", orErr(string(data), err))
		case "open": // for what a successful write would spoil
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			f.Close()
			t.add("open "+path, "%v", err)
		case "write":
			t.add("write "+path, "%v", tryWrite(path))
		}
	}
	return t
}

func (t table) add(key, format string, args ...any) {
	t[key] = append(t[key], fmt.Sprintf(format, args...))
}

func orErr(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// tryWrite says how it ends to make a file, or to write to one.
func tryWrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("written")
	f.Close()
	return err
}

// proc reads a file of the host's /proc; "self" in it is this process whatever namespace it is in.
func proc(name string) string {
	fd, err := unix.Openat(procFd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := io.ReadAll(f)
	return orErr(string(data), err)
}

func readProcLink(name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(procFd, name, buf)
	return string(buf[:max(n, 0)]), err
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

var statusKeys = strings.Fields("Umask Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters SigBlk")

func statusFacts(t table) {
	status := map[string]string{}
	for _, line := range lines(proc("self/status")) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	for _, key := range statusKeys {
		t.add(key, "%s", status[key])
	}
	t.add("uid", "%d %d %d %d", unix.Getuid(), unix.Geteuid(), unix.Getgid(), unix.Getegid())
	depth := strings.Fields(status["NSpid"])
	t.add("pid depth", "%d", len(depth))
	for _, key := range []string{"NSpid", "NSpgid", "NSsid"} { // the host's number is another each time
		if fields := strings.Fields(status[key]); len(fields) > 1 {
			t.add(key, "%s", strings.Join(fields[1:], " "))
		}
	}
	t.add("parent", "%s", strings.TrimSpace(proc(status["PPid"]+"/comm")))
	t.add("parent cmdline", "%s", strings.ReplaceAll(proc(status["PPid"]+"/cmdline"), "\x00", " "))
	// The process that stays in the sandbox may still be about to give up what it holds, because it forks the command first, and the parent
	// to install the filters that the command has, which it need not have. The monitor, whose own parent is no bwrap, has nothing left to give up.
	parent := statusOf(status["PPid"])
	staysInside := parent["Name"] != "" && parent["Name"] == statusOf(parent["PPid"])["Name"]
	for range 60000 {
		if !staysInside || strings.Trim(parent["CapPrm"], "0") == "" {
			break
		}
		time.Sleep(2 * time.Millisecond)
		parent = statusOf(status["PPid"])
	}
	for asleep := 0; asleep < 50; {
		if parent["Seccomp"] == status["Seccomp"] && parent["Seccomp_filters"] == status["Seccomp_filters"] {
			break
		}
		time.Sleep(2 * time.Millisecond)
		parent = statusOf(status["PPid"])
		if state := parent["State"]; state == "" || strings.HasPrefix(state, "S") { // not one that waits for a processor
			asleep++
		}
	}
	for _, key := range statusKeys[4:12] {
		t.add("parent "+key, "%s", parent[key])
	}
}

func statusOf(pid string) map[string]string { return parseStatus(proc(pid + "/status")) }

func parseStatus(text string) map[string]string {
	status := map[string]string{}
	for _, line := range lines(text) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status
}

func processFacts(t table) {
	sid, _ := unix.Getsid(0)
	t.add("session leader", "%v", sid == unix.Getpid())
	t.add("group leader", "%v", unix.Getpgrp() == unix.Getpid())
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	t.add("ctty", "%v", err)
	if err == nil {
		unix.Close(tty)
	}
	t.add("comm", "%s", strings.TrimSpace(proc("self/comm")))
	one, err := os.ReadFile("/proc/1/comm")
	if len(t["NSpid"]) > 0 {
		t.add("comm of 1", "%s", orErr(strings.TrimSpace(string(one)), err))
	}
	host, err := os.Hostname()
	t.add("hostname", "%s", orErr(host, err))
	var signal int32
	unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, pointer(&signal), 0)
	t.add("pdeathsig", "%d", signal)
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	t.add("dumpable", "%d", dumpable)
	for resource := range 16 {
		if resource == unix.RLIMIT_NOFILE { // the Go runtime changes this one
			continue
		}
		var r unix.Rlimit
		_ = unix.Getrlimit(resource, &r)
		t.add("rlimit", "%d %d %d", resource, r.Cur, r.Max)
	}
}

// descriptors lists those open at the start, without the two that the supervisor hands down and what the runtime opened.
func descriptors() []string {
	var out []string
	for fd := range 256 {
		if fd == procFd || fd == readyFd {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		link, err := readProcLink("self/fd/" + strconv.Itoa(fd))
		link, _, _ = strings.Cut(link, ":[")
		mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		out = append(out, fmt.Sprintf("%d %s %#x", fd, orErr(filepath.Clean(link), err), mode))
	}
	return out
}
