package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// machine is what tests must leave as it was, as lines that can be compared: mounts, modes, core_pattern, control groups.
type machine []string

// look reads the machine's state from this process's namespaces, which are the machine's when root runs the tests.
func look() (m machine) {
	add := func(format string, args ...any) { m = append(m, fmt.Sprintf(format, args...)) }
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		add("no mount table: %v", err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 6 { // without ids, which say when it was mounted
			add("mount %s", strings.Join(fields[2:], " "))
		}
	}
	for _, name := range []string{"/proc", "/dev/mqueue", "/proc/sys", "/dev", "/tmp", "/sys/fs/cgroup"} {
		if info, err := os.Stat(name); err == nil {
			add("mode %s %v", name, info.Mode())
		}
	}
	for _, name := range []string{"core_pattern", "pid_max", "core_uses_pid"} {
		data, _ := os.ReadFile("/proc/sys/kernel/" + name)
		add("kernel.%s %s", name, bytes.TrimSpace(data))
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			add("cgroup %s", name)
		}
		return nil
	})
	slices.Sort(m)
	return m
}

// changes lists what differs from before, without what belongs to programs that the tests did not start.
func (m machine) changes(before machine, run string) (lines []string) {
	for _, line := range m {
		if !slices.Contains(before, line) && !foreign(line, run) {
			lines = append(lines, "+ "+line)
		}
	}
	for _, line := range before {
		if !slices.Contains(m, line) && !foreign(line, run) {
			lines = append(lines, "- "+line)
		}
	}
	return lines
}

// runVar names the environment variable that every process of this run has inherited.
const runVar = "NSRUN_TEST_RUN"

// engines are programs that own mounts and control groups, and where they keep them.
var engines = map[string][]string{
	"dockerd":    {"/var/lib/docker/", "/run/docker/", "/sys/fs/cgroup/docker", "/sys/fs/cgroup/system.slice/docker"},
	"containerd": {"/var/lib/containerd/", "/run/containerd/"},
	"podman":     {"/var/lib/containers/", "/run/containers/", "/sys/fs/cgroup/machine.slice"},
	"systemd":    {"/run/user/", "/run/credentials/", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup/init.scope"},
}

// foreign reports whether a line's owner is not this test run: a running engine that it did not start and that keeps such things there, or
// for a control group the program whose processes are in it or in the directory that it is made in.
func foreign(line, run string) bool {
	for engine, places := range engines {
		for _, place := range places {
			if strings.Contains(line, place) && runs(engine, run) {
				return true
			}
		}
	}
	dir, ok := strings.CutPrefix(line, "cgroup ")
	return ok && (managed(dir, run) || filepath.Dir(filepath.Dir(dir)) != "/sys/fs/cgroup" && filepath.Dir(dir) != "/sys/fs/cgroup" && managed(filepath.Dir(dir), run))
}

// managed reports whether another program than this test run has processes in a control group or below it. The groups beside them, which
// may be empty for a moment, are then that program's, too.
func managed(dir, run string) (is bool) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		data, _ := os.ReadFile(filepath.Join(name, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(data)) {
			if !ours(pid, run) {
				is = true
				return filepath.SkipAll
			}
		}
		return nil
	})
	return is
}

// runs reports whether a program runs that this test run did not start.
func runs(program, run string) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && string(bytes.TrimSpace(data)) == program && !ours(filepath.Base(filepath.Dir(name)), run) {
			return true
		}
	}
	return false
}

// ours reports whether a process is of this test run.
func ours(pid, run string) bool {
	data, _ := os.ReadFile("/proc/" + pid + "/environ")
	return bytes.Contains(data, []byte(runVar+"="+run))
}

// leftovers lists processes that still live, of this run or of the ordinary user, who has no others.
func leftovers(run string, users []who) (lines []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := filepath.Base(dir)
		if pid != fmt.Sprint(os.Getpid()) && (ours(pid, run) || len(users) > 1 && owner(dir) == users[1].uid) {
			words, _ := os.ReadFile(dir + "/cmdline")
			lines = append(lines, fmt.Sprintf("+ process %s %q", pid, bytes.ReplaceAll(words, []byte{0}, []byte{' '})))
		}
	}
	return lines
}

// owner returns the user id of a process, or -1.
func owner(dir string) int {
	info, err := os.Stat(dir)
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
