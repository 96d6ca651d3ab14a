package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spec is one run; the test writes it.
type spec struct {
	Path string
	Argv []string
	Env  []string
	Dir  string // of the run; made with what Host describes
	Cwd  string
	Host []string // lines: kind, path, and mode, content or target
	Fds  map[int]string
	Out  []int // descriptors to report

	Stdin   string
	Tty     bool
	Umask   int
	Ignore  []int
	Block   []int
	Close   []int
	Nofile  int
	Signal  int // sent to the monitor when hold runs
	Timeout int // milliseconds
}

// report is how it ended.
type report struct {
	Exit    string
	Stdout  string
	Stderr  string
	Out     map[int]string
	Host    []string
	Left    []string // what outlived the monitor
	Spaces  map[string]string
	Problem string
}

func supervise() error {
	runtime.LockOSThread() // helpers end with the thread that started them
	var s spec
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	// What this process itself was given is not for the sandbox.
	if err := unix.CloseRange(3, 1<<30, unix.CLOSE_RANGE_CLOEXEC); err != nil { // before Linux 5.11
		for fd := 3; fd < 1<<10; fd++ {
			unix.CloseOnExec(fd)
		}
	}
	// What the sandbox leaves behind becomes a child of this process, by which it is found and ended.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	r, err := s.do()
	if err != nil {
		r.Problem = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func (s *spec) do() (report, error) {
	r := report{Out: map[int]string{}, Spaces: map[string]string{}}
	for _, name := range []string{"user", "mnt", "pid", "ipc", "net", "uts", "cgroup", "time"} {
		r.Spaces[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	if err := s.prepare(); err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	d := newDesk()
	defer d.close()
	cmd, err := s.command(d)
	if err != nil {
		return r, fmt.Errorf("command: %w", err)
	}
	syscall.Umask(s.Umask)
	err = cmd.Start()
	syscall.Umask(0o022)
	if err != nil {
		return r, err
	}
	d.started()
	r.Exit = s.wait(cmd.Process.Pid, d)
	r.Left = reap(d.owners)
	r.Stdout, r.Stderr = d.read(1), d.read(2)
	for _, fd := range s.Out {
		r.Out[fd] = d.read(fd)
	}
	r.Host = list(s.Dir)
	return r, nil
}

// command is the bwrap with its descriptors. What only the process itself can set is left to a stage that executes it.
func (s *spec) command(d *desk) (*exec.Cmd, error) {
	cmd := exec.Command(s.Path)
	cmd.Args, cmd.Env, cmd.Dir = s.Argv, s.Env, s.Cwd
	if len(s.Ignore)+len(s.Block)+len(s.Close)+s.Nofile > 0 {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		cmd.Path, cmd.Args = "/proc/self/exe", []string{"fp", "exec", string(text)}
		if cmd.Path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	files, err := d.open(s)
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.ExtraFiles = files[3:]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: s.Tty}
	return cmd, nil
}

func execStage(text string) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	runtime.LockOSThread()
	for _, number := range s.Ignore {
		signal.Ignore(syscall.Signal(number))
	}
	for _, fd := range s.Close {
		unix.Close(fd)
	}
	if s.Nofile > 0 {
		limit := syscall.Rlimit{Cur: uint64(s.Nofile), Max: uint64(s.Nofile)}
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
	}
	var mask uint64
	for _, number := range s.Block {
		mask |= 1 << (number - 1)
	}
	block(mask)
	return syscall.Exec(s.Path, s.Argv, s.Env)
}

// wait waits for the monitor, and kills it when it takes too long.
func (s *spec) wait(pid int, d *desk) string {
	timer := time.AfterFunc(time.Duration(s.Timeout)*time.Millisecond, func() { _ = unix.Kill(pid, unix.SIGKILL) })
	defer timer.Stop()
	began := time.Now()
	if s.Signal > 0 {
		go func() {
			if d.ready() {
				_ = unix.Kill(pid, syscall.Signal(s.Signal))
				d.sent()
			}
		}()
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err.Error()
		}
		break
	}
	if time.Since(began) >= time.Duration(s.Timeout)*time.Millisecond {
		return "timed out"
	}
	if status.Signaled() {
		return "signal " + strconv.Itoa(int(status.Signal()))
	}
	return strconv.Itoa(status.ExitStatus())
}

// leftAfter is how long a process must have waited for something else than its own end to be left for good. Scenes leave processes that end
// by themselves after 100 ms.
const leftAfter = 800 * time.Millisecond

// reap waits for what the monitor left, and ends what remains; it returns the names of those. Only time in which nothing of it runs, or is
// being killed, counts: on a busy machine a process can take any time to end.
func reap(spare []int) []string {
	var left []string
	deadline, before := time.Now().Add(leftAfter), ""
	told := map[int]bool{}
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.ECHILD {
			return left
		}
		if pid > 0 {
			continue
		}
		alive := strangers(spare)
		if len(alive) == 0 {
			return left
		}
		if now, waiting := waiting(alive); len(told) == 0 && (!waiting || now != before) {
			deadline, before = time.Now().Add(leftAfter), now
		}
		if time.Now().After(deadline) {
			for _, pid := range alive {
				if !told[pid] {
					told[pid] = true
					comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
					left = append(left, strings.TrimSpace(string(comm)))
				}
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// waiting reports whether processes and all below them wait for something, and no SIGKILL is on its way to one. how changes when one of them
// has run in between.
func waiting(pids []int) (how string, all bool) {
	all = true
	for i := 0; i < len(pids); i++ { // which grows
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[i]))
		status := parseStatus(string(text))
		if strings.HasPrefix(status["State"], "Z") { // its parent is another one
			continue
		}
		const kill = 1 << (unix.SIGKILL - 1)
		for _, key := range []string{"SigPnd", "ShdPnd"} {
			if pending, _ := strconv.ParseUint(status[key], 16, 64); pending&kill != 0 {
				all = false
			}
		}
		if !strings.HasPrefix(status["State"], "S") && !strings.HasPrefix(status["State"], "T") {
			all = false
		}
		how += fmt.Sprintln(pids[i], status["voluntary_ctxt_switches"], status["nonvoluntary_ctxt_switches"])
		pids = append(pids[:len(pids):len(pids)], children(pids[i])...)
	}
	return how, all
}

// strangers are the children of this process that it did not start to own namespaces.
func strangers(spare []int) []int {
	return slices.DeleteFunc(children(os.Getpid()), func(pid int) bool { return slices.Contains(spare, pid) })
}

// children are those of all threads of a process.
func children(pid int) []int {
	var out []int
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, _ := os.ReadDir(dir)
	for _, task := range tasks {
		data, _ := os.ReadFile(dir + "/" + task.Name() + "/children")
		for _, word := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(word); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
