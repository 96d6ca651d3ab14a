package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun"
	"golang.org/x/sys/unix"
)

// memoryRounds is how often an idle sandbox is measured: the figures hardly differ.
const memoryRounds = 5

// alike is how many equal sandboxes are measured together. The pages of the program's file are then shared, as where several run.
const alike = 3

// librarySandboxes is how many sessions of the library share what their spawner takes. They are fewer where the rounds are few.
func (b *bench) librarySandboxes() int { return min(200, 5*b.rounds) }

// idle is the command of an idle sandbox: it repeats a byte when it is ready, and waits for the next one.
const idle = "cat"

// memory measures what the processes of a runner that waits have to themselves.
func (b *bench) memory() error {
	for _, kind := range []struct{ title, field string }{{"private memory of an idle sandbox", "Private_"}, {"PSS of an idle sandbox", "Pss:"}} {
		all := b.idleContenders(kind.field)
		if err := b.hold(contest{title: kind.title, unit: unitSize, rounds: min(b.rounds, memoryRounds), contenders: all}); err != nil {
			return err
		}
	}
	return nil
}

// idleContenders measure a field of smaps_rollup. An ordinary user may not read it of a process that is not dumpable, as pid 1 of nsrun run
// and of sessions is not (PR_SET_DUMPABLE(2const)): these contenders are left out then.
func (b *bench) idleContenders(field string) []*contender {
	var all []*contender
	for _, c := range contenders(append(b.minimal(), b.layered(nil)[0]), idle)[1:] {
		argv := c.argv
		c.argv, c.optional = nil, true
		c.measure = func() (sample, error) { return idleCommands(argv, field) }
		all = append(all, c)
	}
	return append(all,
		&contender{name: "nsrun session, one open", measure: func() (sample, error) { return b.idleSessions(field) }, optional: true},
		&contender{name: fmt.Sprintf("library, one of %d sessions", b.librarySandboxes()), measure: func() (sample, error) { return b.idleLibrary(field) }, optional: true})
}

// idleCommands starts sandboxes with the idle command.
func idleCommands(argv []string, field string) (sample, error) {
	var roots []int
	for range alike {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = runDir
		in, err := cmd.StdinPipe()
		if err != nil {
			return sample{}, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return sample{}, err
		}
		if err := cmd.Start(); err != nil {
			return sample{}, err
		}
		defer cmd.Wait()
		defer in.Close()
		if _, err := io.WriteString(in, "\n"); err != nil {
			return sample{}, err
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			return sample{}, fmt.Errorf("%s does not start: %w", idle, err)
		}
		roots = append(roots, cmd.Process.Pid)
	}
	return rollup(roots, field, alike)
}

// idleSessions opens sessions, each in a process of its own, and lets one command run and end.
func (b *bench) idleSessions(field string) (sample, error) {
	var roots []int
	for range alike {
		c, err := b.startClient()
		if err != nil {
			return sample{}, err
		}
		defer c.close()
		if err := c.exec(b.nothing); err != nil {
			return sample{}, err
		}
		roots = append(roots, c.cmd.Process.Pid)
	}
	return rollup(roots, field, alike)
}

// idleLibrary opens sessions of the library. What this process itself takes does not count.
func (b *bench) idleLibrary(field string) (sample, error) {
	policy, err := b.policy()
	if err != nil {
		return sample{}, err
	}
	for range b.librarySandboxes() {
		s, err := nsrun.Open(context.Background(), policy)
		if err != nil {
			return sample{}, err
		}
		defer s.Close()
	}
	all, err := processes()
	if err != nil {
		return sample{}, err
	}
	return rollup(all.children(os.Getpid()), field, b.librarySandboxes())
}

// process is a line of the process table.
type process struct {
	name   string
	parent int
}

// table has the processes by their pids.
type table map[int]process

// processes reads the process table.
func processes() (table, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	all := table{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil { // it has ended
			continue
		}
		pid, p, err := parseStat(string(stat))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[pid] = p
	}
	return all, err
}

// parseStat reads the pid, the name and the parent of a line of /proc/PID/stat: proc_pid_stat(5). The name can have spaces and parentheses.
func parseStat(stat string) (pid int, p process, err error) {
	first, last := strings.Index(stat, " ("), strings.LastIndex(stat, ") ")
	if first < 0 || last < first+2 {
		return 0, p, fmt.Errorf("%q has no name in parentheses", stat)
	}
	if pid, err = strconv.Atoi(stat[:first]); err != nil {
		return 0, p, err
	}
	var state string
	p.name = stat[first+2 : last]
	_, err = fmt.Sscan(stat[last+2:], &state, &p.parent)
	return pid, p, err
}

// children lists the children of a process.
func (t table) children(of int) (pids []int) {
	for pid, p := range t {
		if p.parent == of {
			pids = append(pids, pid)
		}
	}
	return pids
}

// rollup sums up a field of smaps_rollup of the processes and all their descendants but idle commands, and returns the part of one sandbox.
func rollup(pids []int, field string, sandboxes int) (sum sample, err error) {
	all, err := processes()
	if err != nil {
		return sum, err
	}
	for len(pids) > 0 {
		pid := pids[0]
		pids = append(pids[1:], all.children(pid)...)
		if all[pid].name == idle || sharesMemory(pid, all[pid].parent) {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended, and has no memory
		}
		if errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w; run nsbench as root", err)
		}
		if err != nil {
			return sum, err
		}
		kib, err := sumField(string(data), field)
		if err != nil {
			return sum, err
		}
		sum.value += kib / float64(sandboxes)
	}
	if sum.value == 0 {
		return sum, fmt.Errorf("there is no process but %s", idle)
	}
	return sum, nil
}

// sharesMemory reports whether a process has the memory of another one, as a session's supervisors have their server's: smaps_rollup then says
// the same of both. Where the kernel does not answer, it is false, and that memory counts twice.
func sharesMemory(pid, other int) bool {
	const vm = 1 // KCMP_VM: kcmp(2)
	different, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(other), vm, 0, 0, 0)
	return e == 0 && different == 0
}

// sumField sums up the lines that begin with the field, in KiB: proc_pid_smaps(5).
func sumField(rollup, field string) (kib float64, err error) {
	found := false
	for line := range strings.Lines(rollup) {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, field) || len(words) != 3 || words[0] == "Private_Hugetlb:" {
			continue
		}
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return 0, err
		}
		kib, found = kib+float64(n), true
	}
	if !found {
		return 0, fmt.Errorf("smaps_rollup has no %s", field)
	}
	return kib, nil
}
