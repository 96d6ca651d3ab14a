package verify

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// terminalFlags are the flags that open both ends of a pseudo-terminal.
const terminalFlags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC

// openTerminal requires a pseudo-terminal on the sandbox's own devpts, whose master is sent to the caller and then closed. The command's
// end comes from the master (TIOCGPTPEER) and is never opened by path: CVE-2025-52565.
func (c *checker) openTerminal() {
	if !c.Plan.Terminal {
		return
	}
	master, number := c.terminalEnds()
	if c.TerminalSize != nil {
		c.call(Order, unix.SYS_IOCTL).slot(master).num(unix.TIOCSWINSZ).mem(c.TerminalSize)
	}
	c.sends('T', number)
	c.close(Descriptors, master)
}

// terminalEnds requires the calls that open both ends. number is the address that the master's descriptor number is written to, or 0.
func (c *checker) terminalEnds() (master sys.Slot, number uint64) {
	m := c.call(Places, unix.SYS_OPENAT).cwd().str("/dev/pts/ptmx").num(terminalFlags)
	if master = m.opens(); m.v.Into() != 0 {
		number = m.writes()
	}
	c.call(Places, unix.SYS_IOCTL).slot(master).num(unix.TIOCSPTLCK).mem([]byte{0, 0, 0, 0})
	c.terminal = c.call(Places, unix.SYS_IOCTL).slot(master).num(unix.TIOCGPTPEER).num(terminalFlags).opens()
	return master, number
}

// sends requires a message on the status socket with the descriptor that an earlier call has opened: that call wrote the descriptor's
// number at the address number, which must lie within this very message. A descriptor of something else cannot leave the sandbox this way.
//
// The message is one block of memory: struct msghdr, struct iovec, a control message (cmsg(3)) with the number, and the byte to send.
func (c *checker) sends(kind byte, number uint64) {
	const vector, control, fd, data = 56, 72, 88, 96
	m := c.call(Lifetime, unix.SYS_SENDMSG).num(c.Status)
	at := m.v.Arg(m.arg)
	if number != at+fd {
		c.fail("it sends another descriptor than the one that was opened")
	}
	m.words(0, 0, at+vector, 1, at+control, uint64(unix.CmsgSpace(4)), 0,
		at+data, 1, uint64(unix.CmsgLen(4)), unix.SOL_SOCKET|unix.SCM_RIGHTS<<32, 0, uint64(kind)).num(unix.MSG_NOSIGNAL)
}

// takeTerminal requires that the terminal becomes the controlling terminal of the command's new session, and its descriptors 0, 1 and 2.
// Claim Order, CVE-2017-5226: the caller's terminal is out of reach of TIOCSTI.
func (c *checker) takeTerminal() {
	if c.terminal == 0 {
		return
	}
	c.call(Order, unix.SYS_IOCTL).slot(c.terminal).num(unix.TIOCSCTTY).num(0)
	for fd := range 3 {
		c.call(Descriptors, unix.SYS_DUP3).slot(c.terminal).num(fd).num(0)
	}
}

// ownNull requires that descriptors 0, 1 and 2 change from the host's /dev/null to the sandbox's, with the same access mode. Root could
// change the mode of the host's device through such a descriptor.
func (c *checker) ownNull() {
	if c.terminal != 0 || !c.ownDev() {
		return
	}
	for fd, mode := range c.Null {
		if mode >= 0 {
			s := c.call(OldRoot, unix.SYS_OPENAT).cwd().str("/dev/null").num(mode).opens()
			c.call(OldRoot, unix.SYS_DUP3).slot(s).num(fd).num(0)
			c.close(OldRoot, s)
		}
	}
}

// ownDev reports whether the sandbox has device nodes of its own at /dev.
func (c *checker) ownDev() bool {
	return slices.ContainsFunc(c.Plan.Mounts, func(op mounts.Op) bool { return op.Kind == mounts.Dev && op.Dest == "/dev" })
}

// files requires that the standard descriptors of a session's command become the files that have come with its request, or the terminal that
// its supervisor has opened. The host's /dev/null is replaced as in ownNull.
func (c *checker) files() {
	if c.TerminalSize != nil {
		c.call(Order, unix.SYS_IOCTL).slot(sys.SlotTerminal).num(unix.TIOCSCTTY).num(0)
		c.call(Order, unix.SYS_IOCTL).slot(sys.SlotTerminal).num(unix.TIOCSWINSZ).mem(c.TerminalSize)
	}
	for fd, mode := range c.Null {
		from := sys.SlotTerminal
		if c.TerminalSize == nil {
			from = sys.SlotIn + sys.Slot(fd)
		}
		if c.TerminalSize == nil && mode >= 0 && c.ownDev() {
			if c.call(OldRoot, unix.SYS_OPENAT).cwd().str("/dev/null").num(mode).keeps() != from {
				c.fail("it is not what becomes descriptor %d", fd)
			}
		}
		c.call(Descriptors, unix.SYS_DUP3).slot(from).num(fd).num(0)
	}
}

// spawn requires the process that becomes the command, with the stages that its backend needs, and requires that its pidfd is sent to the
// caller. A child of a subreaper needs the parent's pid, which it compares (parentLives).
func (c *checker) spawn() {
	if c.Plan.Bare() {
		c.parents = c.call(Lifetime, unix.SYS_GETPID).writes()
	}
	by := Command
	switch c.Plan.Backend {
	case plan.BackendLandlock:
		by = Bare
	case plan.BackendNone:
		by = Unconfined
	}
	var pidfd uint64
	c.command, pidfd = c.child(Order, sys.KindSpawn, sys.ShareMemory, func() { c.stages(Confinement[:], by) })
	// A pid could belong to another process by the time the caller uses it (pidfd_open(2)).
	if pidfd == 0 {
		c.fail("the child's pidfd is written nowhere")
	}
	c.sends('P', pidfd)
	if c.terminal != 0 {
		c.close(Descriptors, c.terminal)
	}
}

// become requires that the process which stays behind closes all descriptors but the status socket and waits for the command. A subreaper
// closes its standard descriptors and the report channel. When the command has ended, it kills the process group or, with a Landlock domain
// around the sandbox, every process of the domain.
func (c *checker) become() {
	if !c.Plan.Bare() {
		c.closeAllBut(0, c.Status)
		c.take(Lifetime, sys.KindReap)
		if home := c.Plan.BoundedHome; home != "" {
			c.str(home)
		}
		c.waits(0)
		return
	}
	for _, fd := range []int{0, 1, 2, c.Report} {
		c.call(Descriptors, unix.SYS_CLOSE).num(fd).or(noSuchDescriptor)
	}
	c.take(Lifetime, sys.KindGuard)
	c.waits(int(c.children))
	c.atLeast(number(!c.Plan.KillScope))
	if c.Plan.KillScope {
		c.killRest()
	}
	if c.Plan.Backend == plan.BackendLandlock {
		c.take(Lifetime, sys.KindDrain)
	}
}

// waits requires that the current step waits for the command and reports its end on the status socket.
func (c *checker) waits(other int) {
	if from, to := c.v.Range(); c.v.Keep() != c.command || from != c.Status || to != other {
		c.fail("it does not wait for the command")
	}
	c.kept, c.ranged = true, true
}

// limits requires the command's resource limits, in two stages. A lowered limit on open files comes last (openFiles), when the last
// descriptor has been opened. A raised one comes with all the others.
func (c *checker) limits(openFiles bool) {
	for _, l := range c.Limits {
		if (l.Name == "open_files" && c.LowersFiles) != openFiles {
			continue
		}
		r, err := rlimit.Lookup(l.Name)
		if err != nil {
			c.failFor(Order, "the limit %s is not known", l)
		}
		c.call(Order, unix.SYS_PRLIMIT64).num(0).num(r.Number).words(l.Soft, l.Hard).null()
	}
}

// filters requires each filter of the plan, byte for byte, in the plan's order and without flags (claim Rules).
// SECCOMP_FILTER_FLAG_NEW_LISTENER, for instance, would let another process answer in the kernel's place.
func (c *checker) filters() {
	for _, f := range c.Filters {
		c.filter(f, 0)
	}
}

// filter requires the installation of this filter with these flags.
func (c *checker) filter(f seccomp.Filter, flags int) *matcher {
	raw := c.raw[:0]
	for _, in := range f {
		raw = binary.NativeEndian.AppendUint16(raw, in.Code)
		raw = append(raw, in.Jt, in.Jf)
		raw = binary.NativeEndian.AppendUint32(raw, in.K)
	}
	c.raw = raw
	m := c.call(Rules, unix.SYS_SECCOMP).num(unix.SECCOMP_SET_MODE_FILTER).num(flags)
	if !m.v.FilterIs(m.arg, raw) {
		c.fail("the filter is not the plan's")
	}
	m.arg++
	return m
}

// listen requires the plan's filters or, in a plan that explains, the filter that asks a listener, with those that are not part of it. The
// listener goes to the caller and nowhere else, and this process closes it: a process that has it can let any call of the command go on. Where there
// can be no listener, all of the plan's own filters follow.
func (c *checker) listen() {
	e := c.Plan.Explain
	if e == nil {
		c.filters()
		return
	}
	filter, beside, err := c.Plan.ExplainFilters(runtime.GOARCH)
	if err != nil {
		c.failFor(Rules, "the listening filter: %v", err)
	}
	flags, _ := seccomp.ListenerFlags(e.Killable)
	rest, socket := 2+len(beside)+1, c.Status // the message, what is closed, the filters, the jump
	if c.serves() {
		socket = listenerSocket
		c.call(Rules, unix.SYS_FCNTL).num(socket).num(unix.F_GETFD).orSkip(doesNotListen, 1+rest)
	}
	listener := c.filter(filter, flags).orSkip(hasListener, rest).orSkip(noListener, rest).opens()
	c.take(Rules, sys.KindSend)
	if from, to := c.v.Range(); c.v.Keep() != listener || from != socket || to != 'L' {
		c.fail("it does not send the listener to the caller")
	}
	c.kept, c.ranged = true, true
	c.close(Rules, listener)
	for _, f := range beside {
		c.filter(f, 0)
	}
	c.failure(Rules, unix.EEXIST).orSkip(listens, len(c.Filters))
	c.filters()
}

// listenerSocket is where a command of a session has the socket that its listener is sent over, if nsrun wants one.
const listenerSocket = 3

// closeRest requires that nothing but 0, 1 and 2 stays open until exec and, in a plan that explains, the socket that has come with the request.
func (c *checker) closeRest() {
	first := 3
	if c.Plan.Explain != nil {
		c.call(Descriptors, unix.SYS_DUP3).slot(sys.SlotListener).num(listenerSocket).num(unix.O_CLOEXEC).or(sameFile).orSkip(noSocket, 1)
		c.failure(Descriptors, unix.EEXIST).orSkip(keepsSocket, 1)
		c.call(Descriptors, unix.SYS_CLOSE).num(listenerSocket).or(notOpen)
		first = listenerSocket + 1
	}
	if c.Plan.Mechanisms.CloseRange {
		c.call(Descriptors, unix.SYS_CLOSE_RANGE).num(first).num(lastFD + 1).num(0)
	}
}

// standardFiles requires that an empty file replaces 0, 1 and 2 of a server, and that the server reports to be ready: an empty failure
// record, after which the channel is closed.
func (c *checker) standardFiles() {
	s := c.call(Descriptors, unix.SYS_MEMFD_CREATE).str("nothing").num(unix.MFD_CLOEXEC).opens()
	for fd := range 3 {
		c.call(Descriptors, unix.SYS_DUP3).slot(s).num(fd).num(unix.O_CLOEXEC)
	}
	c.close(Descriptors, s)
	c.call(Lifetime, unix.SYS_WRITE).num(c.Report).mem(make([]byte, sys.FailureSize)).num(sys.FailureSize).atLeast(sys.FailureSize)
	c.call(Descriptors, unix.SYS_CLOSE).num(c.Report)
}

// serve requires the step that starts commands on request, and the three parts that every command of a session shares: its supervisor, its
// terminal, and its confinement. Each part must begin where the step says and end with its last stage. The descriptors that one part opens
// are not open in the next.
//
// The rest of a command arrives with its request and is no part of this program.
func (c *checker) serve() {
	c.take(Lifetime, sys.KindServe)
	v := c.v
	from, die := v.Range()
	const look = 4
	place, looks := v.Str(look)
	if from != c.Status || v.Keep() != c.children || die != number(c.Plan.Bare()) || v.Min() != number(c.Plan.Scoped()) ||
		place != c.Plan.BoundedHome || !looks && v.Arg(look) != 0 || v.Arg(5) != 0 {
		c.fail("it does not serve as the plan says")
	}
	c.kept, c.ranged, c.least = true, true, true
	end, live, terminal := c.end, c.live, c.terminal
	for part, body := range []func(){
		func() { c.stages(Init[:], Supervisor) },
		func() {
			if master, _ := c.terminalEnds(); master != sys.SlotMaster || c.terminal != sys.SlotTerminal {
				c.fail("requests cannot reach the terminal")
			}
		},
		func() { c.stages(Confinement[:], Shared) },
	} {
		c.done()
		if int(v.Arg(part)) != c.next || v.Arg(part+1) > uint64(end) {
			c.fail("its part %d begins or ends elsewhere", part)
		}
		c.end, c.live = int(v.Arg(part+1)), slices.Clone(live)
		body()
		c.process()
	}
	c.end, c.live, c.terminal = end, live, terminal
}

// number returns 1 for true.
func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// exec requires that the places of PATH are tried as execvp(3) does, and that nothing else comes after the filters: the program ends in an
// exec or a failure.
//
// There are two copies of the tries. The second is entered after the first EACCES, so that the last error is EACCES rather than ENOENT.
// faccessat finds a file that exists although execve reported ENOENT: its interpreter is missing.
func (c *checker) exec() {
	if c.By == Request && c.next != c.Cut {
		c.fail("the calls that all commands share come at %d", c.Cut)
	}
	names := places(c.Plan.Command[0], c.Plan.Env)
	n := len(names)
	c.tries(names, 4*n+1)
	for _, name := range names {
		c.call(Order, unix.SYS_FACCESSAT).cwd().str(name).num(unix.F_OK).orSkip(notThere, 1).orSkip(notDirectory, 1).orSkip(notExecutable, 1)
		c.failure(Order, unix.ENOENT)
	}
	c.failure(Order, unix.ENOENT)
	c.tries(names, 0)
	c.failure(Order, unix.EACCES)
}

// tries requires execve of each name, or of /bin/sh with the name if the file has no header. After ENOENT or ENOTDIR the next name follows.
// After EACCES the next name follows in the second copy; again is the distance to that copy, or 0 within it.
func (c *checker) tries(names []string, again int) {
	argv, env := c.Plan.Command, c.Plan.Env
	for _, name := range names {
		c.call(Order, unix.SYS_EXECVE).str(name).list(argv).list(env).
			or(noHeader).orSkip(notThere, 1).orSkip(notDirectory, 1).orSkip(notExecutable, again+1)
		c.call(Order, unix.SYS_EXECVE).str("/bin/sh").list(append([]string{"/bin/sh", name}, argv[1:]...)).list(env)
	}
}

// places returns the paths at which execvp(3) looks for a command.
func places(name string, environ []string) (names []string) {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	search := "/bin:/usr/bin"
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			search = value
			break
		}
	}
	for dir := range strings.SplitSeq(search, ":") {
		if dir == "" {
			dir = "."
		}
		names = append(names, dir+"/"+name)
	}
	return names
}

// selfTest requires the processes of the self-test. Each confines itself exactly as the command does, with the same checks here, and then
// makes calls that must fail.
func (c *checker) selfTest() {
	if len(c.Plan.SelfTest) == 0 {
		return
	}
	if c.TestReport != 0 { // a process that shares this one's memory must not receive a signal
		c.call(Order, unix.SYS_RT_SIGPROCMASK).num(unix.SIG_SETMASK).words(1<<64 - 1).null().num(8)
	}
	raw, tests := c.Plan.Seccomp != nil && len(c.Plan.Seccomp.Raw) > 0, 0
	for ; c.testAhead(); tests++ {
		foreign := c.foreignAhead()
		shares := sys.ShareMemory
		if raw || foreign { // a filter may kill the child
			shares = sys.ShareNothing
		}
		pid, _ := c.child(Order, sys.KindSpawn, shares, func() {
			if c.TestReport != 0 {
				c.take(Order, sys.KindReport)
				if from, to := c.v.Range(); from != c.TestReport || to != 0 {
					c.fail("it reports to %d", from)
				}
				c.ranged = true
			}
			by := Tester
			if foreign {
				by = ForeignTester
			}
			c.stages(Confinement[:], by)
			c.acts(foreign)
		})
		// An exit code other than 0 means that a stage failed, or that an act succeeded which had to fail.
		c.expect(Order, pid, raw || foreign, unix.ECHILD)
	}
	if tests == 0 {
		c.failFor(Order, "there is no self-test")
	}
}

// testAhead reports whether a process of the self-test comes next. Such a process ends by exit_group or by the call of another
// architecture; the command's own process ends by exec.
func (c *checker) testAhead() bool {
	if v := c.p.View(c.next); v.Kind() == sys.KindSpawn {
		n, _ := v.Range()
		return c.p.View(c.next+n).NR() == unix.SYS_EXIT_GROUP || c.foreignAhead()
	}
	return false
}

// foreignAhead reports whether the child that comes next ends with a system call of another architecture, which the filter must answer by
// killing it.
func (c *checker) foreignAhead() bool {
	n, _ := c.p.View(c.next).Range()
	return n > 1 && c.p.View(c.next+n-1).Kind() == sys.KindForeign
}

// acts requires that every act of the self-test must fail: if it succeeds, the next step stops the start with ENOTUNIQ. Which calls are
// tried is not checked, because the self-test only proves the protection and is not part of it.
func (c *checker) acts(foreign bool) {
	const done = unix.ENOTUNIQ
	if foreign {
		c.take(Order, sys.KindForeign)
		c.failure(Order, done)
		return
	}
	for c.next < c.end-1 {
		v := c.p.View(c.next)
		c.take(Order, sys.KindCall)
		c.arg = 6
		switch {
		case v.NR() == unix.SYS_GETPPID:
			c.keeps()
			continue
		case v.NR() == unix.SYS_SOCKET && v.Keep() != 0:
			c.keeps()
			c.orSkip(refusedAct, 2)
			continue
		}
		c.orSkip(refusedAct, 1)
		c.failure(Order, done)
	}
	c.call(Order, unix.SYS_EXIT_GROUP).num(0)
}
