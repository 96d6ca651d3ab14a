package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// controlCases are attempts to trace, signal and look at other processes, to type into terminals, and to find other IPC objects.
func controlCases() []attackCase {
	yama := "Yama may forbid it"
	onInit := func(id, what, act, want string) attackCase {
		return attackCase{id: id, what: what, tries: []try{{act: act + " 1", control: act + " {pid}", want: want, lone: yama}}}
	}
	return []attackCase{
		{id: "PC01", what: "trace a process of the host", tries: []try{{act: "seize {pid}", want: "ESRCH EPERM", lone: yama}}},
		onInit("PC02", "trace pid 1", "seize", "EPERM"),
		onInit("PC03", "read pid 1's memory", "readv", "EPERM"),
		onInit("PC04", "take a descriptor of pid 1", "getfd", "EPERM ENOSYS"),
		onInit("PC05", "read pid 1's limits", "prlimit", "EPERM"),
		{id: "PC06", what: "signal a process of the host", tries: []try{{act: "kill {pid} 0", want: "ESRCH"}}},
		{id: "PC07", what: "stop or end pid 1", test: signalInit},
		{id: "PC08", what: "kill everything that can be signalled", test: killAll},
		{id: "PC09", what: "open the controlling terminal", test: controllingTerminal},
		{id: "PC10", what: "push input into the terminal", test: func(t *testing.T, w *world) { pushInput(t, w, unix.TIOCSTI) }},
		{id: "PC11", what: "the same with garbage in the upper half", test: func(t *testing.T, w *world) { pushInput(t, w, 1<<40|unix.TIOCSTI) }},
		{id: "PC12", what: "paste by TIOCLINUX, or load a line discipline", tries: []try{
			{act: sys(unix.SYS_IOCTL, 0, unix.TIOCLINUX, bad), want: "EPERM"}, {act: sys(unix.SYS_IOCTL, 0, unix.TIOCSETD, bad), want: "EPERM"}}},
		{id: "PC13", what: "find System V objects of the host", tries: []try{
			{act: "shm {key}", want: "ENOENT"}, {act: "sem {key}", want: "ENOENT"}, {act: "msg {key}", want: "ENOENT"}}},
		{id: "PC14", what: "find a message queue of the host", tries: []try{{act: "mq {mq}", want: "ENOENT", lone: "the kernel may have no message queues"}}},
		{id: "PC15", what: "find a file of the host in /dev/shm", tries: []try{{act: "open r {shm}", want: "ENOENT"}}},
		{id: "PC16", what: "see or signal another sandbox of the same user", test: otherSandbox},
		{id: "PC17", what: "keep others from opening the caller's terminal", test: lockTerminal},
	}
}

func signalInit(t *testing.T, w *world) {
	e := w.probe(t, nil, "signal-init")
	assert.Equal(t, ending{0, "alive\n", ""}, e, "pid 1 is not moved")
	e = w.in(t, nil, "sh", "-c", "kill -9 1; kill -STOP 1; kill -TERM 1; echo alive; exit 3")
	assert.Equal(t, 3, e.code, e)
}

func killAll(t *testing.T, w *world) {
	e := w.in(t, nil, "sh", "-c", "sleep 1000 & kill -9 -1; wait $!; echo $?; exit 5")
	assert.Equal(t, 5, e.code, "the caller of kill(-1) is spared, and its status reported\n%v", e)
	assert.Equal(t, "137\n", e.stdout, "its child is killed")
	assert.NoError(t, unix.Kill(w.pid, 0), "the host's processes live")
	e = w.in(t, nil, "sh", "-c", "kill -9 0")
	assert.Equal(t, 137, e.code, "the own group is the command's alone\n%v", e)
	assert.NoError(t, unix.Kill(w.pid, 0))
}

// terminal makes a pseudo-terminal, whose slave is a user's.
func (w *world) terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	w.own(t, slave.Name())
	t.Cleanup(func() {
		slave.Close()
		master.Close()
	})
	return master, slave
}

// at makes a terminal a command's input and controlling terminal.
func at(slave *os.File) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Stdin = slave
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty, c.SysProcAttr.Ctty = true, true, 0
	}
}

func controllingTerminal(t *testing.T, w *world) {
	_, slave := w.terminal(t)
	act := []string{built.probe, "open", "w", "/dev/tty"}
	require.True(t, try{}.live(w.do(t, at(slave), act...)), "the control")
	_, slave = w.terminal(t)
	e := w.do(t, at(slave), w.nsrun(nil, act...)...)
	assert.True(t, try{want: "ENXIO"}.stopped(e), e)
}

// CVE-2017-5226, CVE-2019-10063.
func pushInput(t *testing.T, w *world, request uint64) {
	act := []string{built.probe, "tiocsti", fmt.Sprint(request)}
	control := func() (ending, int) {
		_, slave := w.terminal(t)
		e := w.do(t, at(slave), act...)
		n, err := unix.IoctlGetInt(int(slave.Fd()), unix.TIOCINQ)
		require.NoError(t, err)
		return e, n
	}
	e, pushed := control()
	live := pushed == 2
	assert.True(t, live || (try{want: "EIO EPERM"}).stopped(e), "the control is reached, or dev.tty.legacy_tiocsti is 0\n%v", e)
	if !live {
		t.Log("no credit: the kernel refuses TIOCSTI to everyone")
	}
	for _, flags := range [][]string{nil, {"--tty"}} {
		_, slave := w.terminal(t)
		e := w.do(t, at(slave), w.nsrun(flags, act...)...)
		assert.True(t, try{want: "EPERM"}.stopped(e), "%q: the filter refuses it\n%v", flags, e)
		n, err := unix.IoctlGetInt(int(slave.Fd()), unix.TIOCINQ)
		require.NoError(t, err)
		assert.Zero(t, n, "%q: the host's terminal has received nothing", flags)
	}
}

// lockTerminal asks by TIOCEXCL that nobody but root may open the terminal at descriptor 0 any more: ioctl_tty(2).
func lockTerminal(t *testing.T, w *world) {
	act := append([]string{built.probe}, fields(sys(unix.SYS_IOCTL, 0, unix.TIOCEXCL, 0))...)
	_, slave := w.terminal(t)
	e := w.do(t, at(slave), act...)
	require.True(t, try{want: "REACHED"}.stopped(e), "the control\n%v", e)
	for _, flags := range [][]string{nil, {"--tty"}} {
		_, slave := w.terminal(t)
		e := w.do(t, at(slave), w.nsrun(flags, act...)...)
		assert.True(t, try{want: "EPERM"}.stopped(e), "%q\n%v", flags, e)
	}
}

// otherSandbox starts a sandbox, and looks for it from a second one.
func otherSandbox(t *testing.T, w *world) {
	first := w.start(t, nil, w.nsrun(nil, "sh", "-c", "echo mine >/tmp/"+w.marker+"; echo ready; exec sleep 1000.5 # "+w.marker)...)
	first.wait(t, "ready")
	for _, c := range []try{
		{act: "proc-has sleep", want: "ESRCH"}, {act: "open r /tmp/" + w.marker, want: "ENOENT"}, {act: "kill -1 0", want: "ESRCH EPERM REACHED"},
	} {
		e := w.probe(t, nil, c.act)
		assert.True(t, c.stopped(e), "%s\n%v", c.act, e)
	}
	e := w.in(t, nil, "sh", "-c", "kill -9 -1; true")
	assert.Equal(t, 0, e.code, e)
	assert.NoError(t, first.cmd.Process.Signal(unix.Signal(0)))
	assert.Nil(t, first.cmd.ProcessState, "the first one lives")
	require.NoError(t, first.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 143, first.end(t))
}

// started is a program that runs.
type started struct {
	cmd    *exec.Cmd
	stdout *syncBuffer
	done   chan struct{}
}

// start starts a program; when the test ends, so does it.
func (w *world) start(t *testing.T, change func(*exec.Cmd), argv ...string) *started {
	t.Helper()
	s := &started{cmd: w.command(t.Context(), argv...), stdout: &syncBuffer{}, done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.stdout
	if change != nil {
		change(s.cmd)
	}
	require.NoError(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	return s
}

// wait waits for a text in the output.
func (s *started) wait(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, func() bool { return strings.Contains(s.stdout.String(), text) }, fmt.Sprintf("%q in the output of %q", text, s.cmd.Args))
}

// end waits for the program's own end, and gives its code.
func (s *started) end(t *testing.T) int {
	t.Helper()
	testenv.Receive(t, s.done, fmt.Sprintf("the end of %q", s.cmd.Args))
	return codeOf(s.cmd.ProcessState)
}

// alive lists processes of the host whose arguments hold a word.
func alive(word string) (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		data, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if bytes.Contains(data, []byte(word)) {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

// gone asserts that in the end no such process is left. One look is not enough: a process that has just been killed in the midst of
// execve(2) has no arguments for a moment, and then those of the program, until it comes to its death.
func gone(t *testing.T, word string) {
	t.Helper()
	limit := time.Now().Add(testenv.Limit(0))
	for seen := time.Now(); time.Since(seen) < testenv.Scale(100*time.Millisecond) && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if len(alive(word)) > 0 {
			seen = time.Now()
		}
	}
	left := alive(word)
	assert.Empty(t, left, "nothing with %q survives; %s", word, described(left))
}

// described tells what processes are, for those who read of a failure.
func described(pids []string) string {
	var b strings.Builder
	for _, pid := range pids {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			fmt.Fprintf(&b, "%s has ended since; ", pid)
			continue
		}
		for _, line := range strings.Split(string(status), "\n") {
			for _, key := range []string{"Name:", "State:", "Pid:", "PPid:", "NSpid:", "SigPnd:", "ShdPnd:"} {
				if strings.HasPrefix(line, key) {
					b.WriteString(strings.ReplaceAll(line, "\t", " ") + " ")
				}
			}
		}
	}
	return b.String()
}
