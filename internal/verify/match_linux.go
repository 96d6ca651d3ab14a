package verify

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// matcher walks along a program. A requirement names the next call, then all that is set on that call, in order. done, which runs before
// the next call is taken, refuses whatever no requirement has named: no argument, tolerated error or kept result goes unchecked.
//
// A mismatch panics with a *Violation, which [Check] recovers.
type matcher struct {
	p                                *sys.Program
	at                               int // the current call
	next                             int // the call after it, or the first call of a process
	end                              int // where the calls of the current process end
	v                                sys.View
	claim                            Claim
	arg                              int        // the argument to be named next
	tols                             int        // how many tolerated errors have been named
	kept, into, least, ranged, errno bool       // which properties of the call, beside its arguments, have been named
	live                             []sys.Slot // slots that hold an open descriptor
}

// fail stops the check with a violation of the current claim at the current call.
func (m *matcher) fail(format string, args ...any) {
	panic(&Violation{m.claim, m.at, m.p.Describe(m.at), fmt.Sprintf(format, args...)})
}

// failFor stops the check with a violation of claim c.
func (m *matcher) failFor(c Claim, format string, args ...any) {
	m.claim = c
	m.fail(format, args...)
}

// done requires that nothing is set on the current call beyond what was named: no further argument, no further tolerated error (claim
// Tolerance), no result kept or written, no least result, no range and no error.
func (m *matcher) done() {
	if m.at < 0 {
		return
	}
	v := m.v
	for i := m.arg; i < 6 && v.Kind() != sys.KindServe; i++ {
		if v.Arg(i) != 0 || v.IsSlot(i) || v.IsCounter(i) {
			m.fail("argument %d is not expected", i)
		}
	}
	if e, skip, more := v.Tolerated(m.tols); more {
		m.failFor(Tolerance, "it may fail with %s and leave out %d calls", errname(e), skip)
	}
	from, to := v.Range()
	switch {
	case v.Keep() != 0 && !m.kept:
		m.fail("its result is kept")
	case v.Into() != 0 && !m.into:
		m.fail("its result is written somewhere")
	case v.Min() != 0 && !m.least:
		m.fail("a result below %d is a failure", v.Min())
	case (from != 0 || to != 0) && !m.ranged:
		m.fail("it has numbers %d and %d", from, to)
	case v.Errno() != 0 && !m.errno:
		m.fail("it fails with %s", errname(v.Errno()))
	}
}

func errname(e syscall.Errno) string {
	if e == sys.Any {
		return "anything"
	}
	return unix.ErrnoName(e)
}

// take requires that the process has a next call and that the call is of this kind. It first closes the check of the call before.
func (m *matcher) take(claim Claim, kind sys.Kind) *matcher {
	m.done()
	m.at, m.claim = m.next, claim
	if m.at >= m.end {
		m.at = m.end - 1
		m.fail("a call is missing after it")
	}
	m.v, m.arg, m.tols = m.p.View(m.at), 0, 0
	m.kept, m.into, m.least, m.ranged, m.errno = false, false, false, false, false
	m.next++
	if m.v.Kind() != kind {
		m.fail("it is a call of kind %d, not %d", m.v.Kind(), kind)
	}
	return m
}

// call requires the system call nr.
func (m *matcher) call(claim Claim, nr uintptr) *matcher {
	m.take(claim, sys.KindCall)
	return m.is(nr)
}

// repeated requires the system call nr, made once for each value of its counter from from to to.
func (m *matcher) repeated(claim Claim, nr uintptr, from, to int) *matcher {
	m.take(claim, sys.KindRepeat)
	if a, b := m.v.Range(); a != from || b != to {
		m.fail("it is made for %d to %d, not for %d to %d", a, b, from, to)
	}
	m.ranged = true
	return m.is(nr)
}

// is requires that the current call is the system call nr.
func (m *matcher) is(nr uintptr) *matcher {
	if m.v.NR() != nr {
		m.fail("it is %s, not %s", sys.Name(m.v.NR()), sys.Name(nr))
	}
	return m
}

// ahead reports whether the call n places further on is the system call nr. It requires nothing.
func (m *matcher) ahead(n int, nr uintptr) bool {
	if m.next+n >= m.end {
		return false
	}
	v := m.p.View(m.next + n)
	return v.Kind() == sys.KindCall && v.NR() == nr
}

// aheadStr reports whether the next call is nr with the string s as argument i. It requires nothing.
func (m *matcher) aheadStr(nr uintptr, i int, s string) bool {
	if !m.ahead(0, nr) {
		return false
	}
	have, ok := m.p.View(m.next).Str(i)
	return ok && have == s
}

// num requires that the next argument is the number n.
func (m *matcher) num(n int) *matcher { return m.word(uint64(n)) }

// word requires that the next argument is the number n, and not the value in a slot or a counter that happens to have the number n.
func (m *matcher) word(n uint64) *matcher {
	if i := m.arg; m.v.Arg(i) != n || m.v.IsSlot(i) || m.v.IsCounter(i) {
		m.fail("argument %d is %#x, not %#x", i, m.v.Arg(i), n)
	}
	m.arg++
	return m
}

func (m *matcher) null() *matcher { return m.word(0) }

// cwd requires AT_FDCWD: the path that follows is relative to the working directory, or absolute.
func (m *matcher) cwd() *matcher { return m.num(unix.AT_FDCWD) }

// any accepts every plain number as the next argument, and returns it. The caller must check the number.
func (m *matcher) any() (*matcher, int) {
	if m.v.IsSlot(m.arg) || m.v.IsCounter(m.arg) {
		m.fail("argument %d is no plain number", m.arg)
	}
	m.arg++
	return m, int(m.v.Arg(m.arg - 1))
}

// counter requires that the next argument is the counter of a repeated call.
func (m *matcher) counter() *matcher {
	if !m.v.IsCounter(m.arg) || m.v.IsSlot(m.arg) || m.v.Arg(m.arg) != 0 {
		m.fail("argument %d is not the counter", m.arg)
	}
	m.arg++
	return m
}

// slot requires that the next argument is the value in slot s, the result of an earlier call.
func (m *matcher) slot(s sys.Slot) *matcher {
	if i := m.arg; !m.v.IsSlot(i) || sys.Slot(m.v.Arg(i)) != s || m.v.IsCounter(i) {
		m.fail("argument %d is not the descriptor in $%d", i, s)
	}
	m.arg++
	return m
}

// str requires that the next argument is the string s.
func (m *matcher) str(s string) *matcher {
	have, ok := m.v.Str(m.arg)
	if !ok || have != s {
		m.fail("argument %d is %q, not %q", m.arg, have, s)
	}
	m.arg++
	return m
}

// optional requires the string s, or NULL if s is empty.
func (m *matcher) optional(s string) *matcher {
	if s == "" {
		return m.null()
	}
	return m.str(s)
}

// mem requires that the next argument points to exactly these bytes.
func (m *matcher) mem(data []byte) *matcher {
	if have := m.v.Mem(m.arg); string(have) != string(data) {
		m.fail("argument %d points to %x, not to %x", m.arg, have, data)
	}
	m.arg++
	return m
}

// words requires that the next argument points to a structure of these 64-bit words.
func (m *matcher) words(words ...uint64) *matcher {
	have := m.v.Mem(m.arg)
	same := len(have) == 8*len(words)
	for i := 0; same && i < len(words); i++ {
		same = binary.NativeEndian.Uint64(have[8*i:]) == words[i]
	}
	if !same {
		m.fail("argument %d points to %x, not to the words %x", m.arg, have, words)
	}
	m.arg++
	return m
}

// buffer requires that the next argument points to n bytes of any content: the kernel writes them.
func (m *matcher) buffer(n int) *matcher {
	if have := m.v.Mem(m.arg); len(have) != n {
		m.fail("argument %d points to %d bytes, not to %d", m.arg, len(have), n)
	}
	m.arg++
	return m
}

// list requires that the next argument is a NULL-terminated array of these strings.
func (m *matcher) list(words []string) *matcher {
	if !m.v.ListIs(m.arg, words) {
		m.fail("argument %d is not the list %q", m.arg, words)
	}
	m.arg++
	return m
}

// atLeast requires that the program counts a result below n as a failure, such as a short write.
func (m *matcher) atLeast(n int) *matcher {
	if m.v.Min() != n {
		m.fail("a result below %d is a failure, not one below %d", m.v.Min(), n)
	}
	m.least = true
	return m
}

// or requires that the call may also fail with t, and that the program then goes on with the next call.
func (m *matcher) or(t tolerated) *matcher { return m.orSkip(t, 0) }

// orSkip requires that the call may also fail with t, and that the program then leaves out exactly skip calls. A larger number would skip a
// protection (claim Tolerance).
func (m *matcher) orSkip(t tolerated, skip int) *matcher {
	if e, n, ok := m.v.Tolerated(m.tols); !ok || e != t.errno || n != skip {
		m.failFor(Tolerance, "it does not tolerate %s, leaving out %d calls", errname(t.errno), skip)
	}
	m.tols++
	return m
}

// keeps requires that the result goes to a slot, and returns the slot. A slot with an open descriptor is refused: the descriptor could
// never be closed again.
func (m *matcher) keeps() sys.Slot {
	s := m.v.Keep()
	if s == 0 {
		m.fail("its result is not kept")
	}
	if slices.Contains(m.live, s) {
		m.fail("$%d, which it keeps its result in, still has an open descriptor", s)
	}
	m.kept = true
	return s
}

// opens is keeps for a descriptor. The descriptor counts as open until close or forget.
func (m *matcher) opens() sys.Slot {
	s := m.keeps()
	m.live = append(m.live, s)
	return s
}

// writes requires that the result is also written to memory, and returns the address.
func (m *matcher) writes() uint64 {
	if m.v.Into() == 0 {
		m.fail("its result is written nowhere")
	}
	m.into = true
	return m.v.Into()
}

// close requires that the descriptor in slot s is closed.
func (m *matcher) close(claim Claim, s sys.Slot) {
	m.call(claim, unix.SYS_CLOSE).slot(s)
	m.forget(s)
}

// forget records that slot s holds no open descriptor any more.
func (m *matcher) forget(s sys.Slot) {
	if i := slices.Index(m.live, s); i >= 0 {
		m.live = slices.Delete(m.live, i, i+1)
	}
}

// failure requires a step that always fails with e and so stops the start. It follows a call whose success would be wrong.
func (m *matcher) failure(claim Claim, e syscall.Errno) *matcher {
	m.take(claim, sys.KindFail)
	if m.v.Errno() != e {
		m.fail("it fails with %s, not with %s", errname(m.v.Errno()), errname(e))
	}
	m.errno = true
	return m
}

// expect requires waiting for the child in slot pid, which must end with exit code 0 or, if killed is set, by a signal. Any other end stops
// the start with e.
func (m *matcher) expect(claim Claim, pid sys.Slot, killed bool, e syscall.Errno) {
	m.take(claim, sys.KindExpect)
	if from, to := m.v.Range(); m.v.Keep() != pid || from != 0 || to != number(killed) || m.v.Errno() != e {
		m.fail("it does not wait for the child as expected")
	}
	m.kept, m.ranged, m.errno = true, true, true
}

// child requires a child process of this kind that shares this much with its parent, and checks the calls of the child with body. It
// returns the slot that has the pid, and the address that the pidfd is written to.
//
// The calls of a child are part of the same list: body must account for all of them, and for no more. The descriptors that the child opens
// or closes do not change what its parent has open.
func (m *matcher) child(claim Claim, kind sys.Kind, shares int, body func()) (pid sys.Slot, pidfd uint64) {
	m.take(claim, kind)
	n, have := m.v.Range()
	if have != shares {
		m.fail("its child shares %d with it, not %d", have, shares)
	}
	m.ranged, m.kept, m.into = true, true, true
	pid, pidfd = m.v.Keep(), m.v.Into()
	if kind == sys.KindFork && pid != 0 {
		m.fail("its pid is kept")
	}
	m.done()
	end, live := m.end, slices.Clone(m.live)
	if m.next+n > end {
		m.fail("its child has %d calls, more than there are", n)
	}
	m.end = m.next + n
	body()
	m.process()
	m.end, m.live = end, live
	return pid, pidfd
}

// process requires that the current process has no more calls: a call that no stage accounts for is a violation.
func (m *matcher) process() {
	m.done()
	if m.next != m.end {
		m.at = m.next
		m.failFor(Order, "%s is not expected", m.p.CallName(m.at))
	}
	m.at, m.v = -1, sys.View{}
}
