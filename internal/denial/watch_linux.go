package denial

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// Config is what the answers, and the words of a report, depend on.
type Config struct {
	Plan *plan.Plan
	// Filters are all of the plan's. Those beside the listening filter have a say of their own, but the kernel prefers a listener to a tracer, and to
	// an action that it does not know.
	Filters []seccomp.Filter
	// Rules are Landlock's, at the paths that lowering has resolved.
	Rules []landlock.PathRule
	// Home is the caller's home directory, below which secrets are.
	Home string
	// All reports what a plan watches only to report all: see [plan.Explain].
	All bool
}

// event is a call that was answered.
type event struct {
	name      string
	call      call
	pid       uint32
	comm      string // the name of its thread
	dir, path string // of the call; dir is the path of the directory that path begins at, if it is relative
	flags     uint64
	nofollow  bool   // the last link of path is not followed
	removes   bool   // a directory is removed
	second    bool   // path is the one that rename(2) makes
	mode      uint32 // of access(2)
	errno     uint16 // of a call that the filters have refused
	args      [2]uint64
	port      uint16 // of the command's own host, where nobody listens in the sandbox
	unclear   bool   // nsrun could not see whether anybody listens in the sandbox
	root      int    // of the command; -1 if it is not known yet
}

// restTime is how long a report waits for the last events to be looked up.
const restTime = 2 * time.Second

// Watch answers one listener.
type Watch struct {
	Config
	queue    *queue
	arch     seccomp.Arch
	decider  *seccomp.Decider
	listener int
	asks     int           // a pipe: a byte asks for what is known, and its end ends the answers
	ask      *os.File      // its other end
	looked   chan struct{} // closed when the last event was looked up
	found    *found
	calls    atomic.Int64
	comms    map[uint32]string  // of threads that have asked
	ended    bool               // there are no more events: nothing is looked up any more
	root     int                // of the command, which is the sandbox's; -1 as long as it is not known
	ns       int                // its mount namespace, which lives as long as that is open
	seen     map[[3]string]bool // what was looked up before, and was nothing
}

// Start answers a listener, which it takes over, until [Watch.Finish] or until the command's last process has ended.
func Start(listener int, c Config) (*Watch, error) {
	arch, err := seccomp.Host()
	decider, checked := seccomp.NewDecider(c.Filters...)
	var pipe [2]int
	if err = errors.Join(err, checked); err == nil {
		err = os.NewSyscallError("pipe2", unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	}
	if err != nil {
		unix.Close(listener)
		return nil, err
	}
	w := &Watch{Config: c, queue: newQueue(), arch: arch, decider: decider, listener: listener, asks: pipe[0], ask: os.NewFile(uintptr(pipe[1]), "asks"),
		looked: make(chan struct{}), found: newFound(), root: -1, ns: -1, comms: map[uint32]string{}}
	_ = sys.SwitchAtOnce(listener) // it is only faster
	go w.serve()
	go w.lookUp()
	return w, nil
}

// Finish ends the answers and returns what was refused. No process of the command is alive any more.
func (w *Watch) Finish() ([]result.Denial, *result.Explained) {
	w.ask.Close()
	return w.report()
}

// Report returns what was refused until now. It is to be called once. The answers go on as long as a process of the command is alive, and nothing else
// does: what is refused to that is not looked up.
func (w *Watch) Report() ([]result.Denial, *result.Explained) {
	_, _ = w.ask.Write([]byte{0}) // it fails if there are no answers any more
	return w.report()
}

// report waits until all was looked up, or says of how many that is not so. A look may hang: it keeps its thread.
func (w *Watch) report() ([]result.Denial, *result.Explained) {
	late := 0
	select {
	case <-w.looked:
	case <-time.After(restTime):
		late = int(w.queue.waiting.Load()) // what is looked up, or given up, just now may count twice
	}
	denials, unknown := w.found.all()
	level := policy.ExplainOn
	if w.All {
		level = policy.ExplainAll
	}
	return denials, &result.Explained{Level: string(level), Calls: int(w.calls.Load()), NotLookedAt: unknown + late}
}

// serve answers one call after the other, until the command's last process has ended. It never waits for a look.
func (w *Watch) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread() // the thread does not end: it may be the one that has forked the sandbox, which would end with it
	defer w.endEvents()
	defer unix.Close(w.listener) // a call that nobody answers fails with ENOSYS then
	fds := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}, {Fd: int32(w.asks), Events: unix.POLLIN}}
	for {
		wait := -1
		if len(w.queue.batch) > 0 {
			wait = batchTime
		}
		ready, err := unix.Poll(fds, wait)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return
		case ready == 0:
			w.queue.pass()
			continue
		case fds[1].Revents&unix.POLLIN != 0:
			w.endEvents()
			fds[1].Fd = -1 // poll leaves it out
			continue
		case fds[1].Revents != 0, fds[0].Revents&unix.POLLIN == 0: // nobody wants the answers any more, or nobody asks
			return
		}
		n, err := sys.ReceiveNotification(w.listener)
		if err == nil {
			w.answer(n)
		} else if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// answer answers a call as the filters do: nothing goes on but what they allow and what is watched.
func (w *Watch) answer(n sys.Notification) {
	name, _ := w.arch.Name(uint32(n.NR))
	verdict, err := w.decider.Decide(seccomp.Data{NR: uint32(n.NR), Arch: n.Arch, IP: n.IP, Args: n.Args})
	c, watched := callOf(name)
	silent := w.ended || watched && !w.All && plan.ExplainsLooking(name)
	errno, refused := verdict.Errno()
	if err != nil || !refused && (!verdict.Allows() || !watched) {
		_ = sys.FailCall(w.listener, n.ID, uint16(unix.EPERM)) // a bug; it must not be one that lets a call go on
		return
	}
	if !silent {
		w.calls.Add(1)
	}
	comm := ""
	if !w.ended {
		comm = w.comm(n.PID, c.act == execute)
	}
	if refused {
		if sys.FailCall(w.listener, n.ID, errno) == nil && !w.ended {
			w.add(event{name: name, pid: n.PID, comm: comm, errno: errno, args: [2]uint64{n.Args[0], n.Args[1]}})
		}
		return
	}
	if silent {
		_ = sys.LetGoOn(w.listener, n.ID)
		return
	}
	entered := w.root < 0 && w.enter(n.PID)
	all := w.read(name, c, n)
	if sys.LetGoOn(w.listener, n.ID) != nil { // the thread has ended: what was read, and entered, may be another's
		if entered {
			w.leave()
		}
		delete(w.comms, n.PID)
		return
	}
	for _, e := range all {
		e.root, e.comm = w.root, comm
		w.add(e)
	}
}

// mostComms bounds the names that are remembered.
const mostComms = 4096

// comm is the name of a thread, which is asked for once for each program: looked up later, it may be gone.
func (w *Watch) comm(pid uint32, executes bool) string {
	name, ok := w.comms[pid]
	if !ok {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/comm")
		if name = strings.TrimSuffix(string(text), "\n"); len(w.comms) >= mostComms {
			clear(w.comms)
		}
		w.comms[pid] = name
	}
	if executes {
		delete(w.comms, pid)
	}
	return name
}

// add notes an event, to be looked up.
func (w *Watch) add(e event) {
	if !w.queue.add(e) {
		w.found.unknown(1)
	}
}

// endEvents passes on the last events: of what is asked for later, nothing is looked up.
func (w *Watch) endEvents() {
	if w.ended {
		return
	}
	w.ended, w.comms = true, nil
	unix.Close(w.asks)
	w.queue.end()
}

// read copies what a call asks for out of its process.
func (w *Watch) read(name string, c call, n sys.Notification) (all []event) {
	e := event{name: name, call: c, pid: n.PID}
	switch {
	case c.act == connect || c.act == bindTo:
		return readAddress(e, n, w.Plan.Network == string(policy.NetworkNone))
	case c.act == sendName:
		return readName(e, n)
	case name == "creat":
		e.flags = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
	case name == "openat2":
		e.flags, _ = peekWord(n.PID, n.Args[2])
	case c.act == open:
		e.flags = n.Args[c.flags]
	}
	e.asks(n.Args)
	add := func(dir, path int8) {
		text, ok := peekString(n.PID, n.Args[path])
		if !ok || text == "" {
			return
		}
		one := e
		if one.path = text; text[0] != '/' {
			one.dir = directory(n.PID, dir, n.Args)
		}
		all = append(all, one)
	}
	add(c.dir, c.path)
	switch {
	case name == "link":
		e = e.source(false)
		add(cwd, 0)
	case name == "linkat":
		e = e.source(n.Args[4]&unix.AT_SYMLINK_FOLLOW != 0)
		add(0, 1)
	case c.dir2 == cwd:
		e.second = true
		add(cwd, c.path+1)
	case c.dir2 >= 0:
		e.second = true
		add(c.dir2, c.dir2+1)
	}
	return all
}

// directory is the path, as its process has it, of the directory that a relative path begins at.
func directory(pid uint32, dir int8, args [6]uint64) string {
	at := "/proc/" + strconv.Itoa(int(pid)) + "/cwd"
	if dir >= 0 && int32(args[dir]) != unix.AT_FDCWD {
		at = "/proc/" + strconv.Itoa(int(pid)) + "/fd/" + strconv.Itoa(int(int32(args[dir])))
	}
	path, err := os.Readlink(at)
	if err != nil || path == "" || path[0] != '/' {
		return ""
	}
	return path
}

// peek reads memory of a process, to the end of a page at least: up to the first byte that is not there.
func peek(pid uint32, at uint64, buf []byte) []byte {
	const page = 4096
	first := min(len(buf), page-int(at%page))
	remote := []unix.RemoteIovec{{Base: uintptr(at), Len: first}}
	if first < len(buf) {
		remote = append(remote, unix.RemoteIovec{Base: uintptr(at) + uintptr(first), Len: len(buf) - first})
	}
	n, err := unix.ProcessVMReadv(int(pid), []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}, remote, 0)
	if err != nil {
		return nil
	}
	return buf[:n]
}
