package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// machine is what tests must leave as it was, as lines that can be compared: mounts, modes, core_pattern, control groups.
type machine []string

// process is one that ran at some moment. The start time tells it from another of the same pid.
type process struct{ pid, started string }

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
	add("mode of the message queues' root %s", queueMode())
	for _, name := range []string{"/proc", "/proc/sys", "/dev", "/tmp", "/sys/fs/cgroup"} {
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
	for i, n := 1, 1; i < len(m); i++ { // a mount can be there twice
		if n++; m[i] != strings.TrimSuffix(m[i-1], fmt.Sprintf(" #%d", n-1)) {
			n = 1
		} else {
			m[i] += fmt.Sprintf(" #%d", n)
		}
	}
	return m
}

// queueMode returns the mode of the root of this IPC namespace's message queues, which exists whether it is mounted or not: a test that has
// mounted it somewhere else can have changed it.
func queueMode() string {
	if os.Getuid() != 0 {
		return "(only root can mount it)"
	}
	const look = `mount -t mqueue none /mnt && stat -c %a /mnt` // in a mount namespace that ends with it
	out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", look).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("cannot be read: %v: %s", err, bytes.TrimSpace(out))
	}
	return string(bytes.TrimSpace(out))
}

// processes lists what runs.
func processes() map[process]bool {
	list := map[process]bool{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// proc_pid_stat(5): the name, the second field, is in parentheses and can hold anything; the start time is the 22nd field.
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 19 && fields[0] != "Z" {
			list[process{filepath.Base(dir), fields[19]}] = true
		}
	}
	return list
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

// backends are programs that own mounts and control groups, and where they keep them.
var backends = map[string][]string{
	"dockerd":    {"/var/lib/docker/", "/run/docker/", "/sys/fs/cgroup/docker", "/sys/fs/cgroup/system.slice/docker"},
	"containerd": {"/var/lib/containerd/", "/run/containerd/"},
	"podman":     {"/var/lib/containers/", "/run/containers/", "/sys/fs/cgroup/machine.slice"},
	"systemd":    {"/run/user/", "/run/credentials/"},
}

// foreign reports whether a line's owner is not this test run: a running backend that it did not start and that keeps such things there, or
// for a control group the program whose processes are in it or in the directory that it is made in.
func foreign(line, run string) bool {
	for backend, places := range backends {
		for _, place := range places {
			if strings.Contains(line, place) && runs(backend, run) {
				return true
			}
		}
	}
	dir, ok := strings.CutPrefix(line, "cgroup ")
	if !ok {
		return false
	}
	parent := filepath.Dir(dir)
	shared := parent == "/sys/fs/cgroup" || filepath.Dir(parent) == "/sys/fs/cgroup" || slices.Contains(ownGroups(), parent)
	return managed(dir, run) || !shared && managed(parent, run)
}

// ownGroups lists the directories of the control groups that this process is in.
func ownGroups() (dirs []string) {
	data, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		if _, rest, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			controllers, path, _ := strings.Cut(rest, ":")
			dirs = append(dirs, filepath.Join("/sys/fs/cgroup", path), filepath.Join("/sys/fs/cgroup", controllers, path), filepath.Join("/sys/fs/cgroup/unified", path))
		}
	}
	return dirs
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
	if pid == strconv.Itoa(os.Getpid()) {
		return true
	}
	data, _ := os.ReadFile("/proc/" + pid + "/environ")
	return bytes.Contains(data, []byte(runVar+"="+run))
}

// leftovers waits until no process of this run is left, and lists those that stay: processes that were not there before and have inherited
// its variable, or are the ordinary user's, who has no others, or work or have their program in its directory: a sandbox clears the
// environment.
func leftovers(before map[process]bool, run, dir string, users []who) (lines []string) {
	for end := time.Now().Add(testenv.Limit(0)); ; time.Sleep(20 * time.Millisecond) {
		lines = nil
		for p := range processes() {
			if before[p] || p.pid == strconv.Itoa(os.Getpid()) {
				continue
			}
			at := "/proc/" + p.pid
			cwd, _ := os.Readlink(at + "/cwd")
			exe, _ := os.Readlink(at + "/exe")
			if ours(p.pid, run) || len(users) > 1 && owner(at) == users[1].uid || strings.HasPrefix(cwd, dir) || strings.HasPrefix(exe, dir) {
				words, _ := os.ReadFile(at + "/cmdline")
				lines = append(lines, fmt.Sprintf("+ process %s %q", p.pid, bytes.ReplaceAll(words, []byte{0}, []byte{' '})))
			}
		}
		if len(lines) == 0 || time.Now().After(end) {
			slices.Sort(lines)
			return lines
		}
	}
}

// owner returns the user id of a process, or -1.
func owner(dir string) int {
	info, err := os.Stat(dir)
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
