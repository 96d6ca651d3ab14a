package verify

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// matcher walks along a program. Each requirement names a call and then everything that is to be set of it, in order; whatever a requirement
// does not name must not be set. A mismatch panics with a *Violation, which [Check] recovers.
type matcher struct {
	p                                *sys.Program
	at                               int // the call at hand
	next                             int // the one after it, or the first of a process
	end                              int // where the calls of the process at hand end
	v                                sys.View
	claim                            Claim
	arg                              int        // the argument that is named next
	tols                             int        // tolerated errors named
	kept, into, least, ranged, errno bool       // what was named of the call at hand beside its arguments
	live                             []sys.Slot // slots of descriptors that are open
}

func (m *matcher) fail(format string, args ...any) {
	panic(&Violation{m.claim, m.at, m.p.Describe(m.at), fmt.Sprintf(format, args...)})
}

// failFor fails for a claim of its own.
func (m *matcher) failFor(c Claim, format string, args ...any) {
	m.claim = c
	m.fail(format, args...)
}

// done requires that nothing else is set of the call at hand.
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

// take requires that the next call is of this kind.
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

// repeated requires the system call nr, made once for each value from..to of its counter.
func (m *matcher) repeated(claim Claim, nr uintptr, from, to int) *matcher {
	m.take(claim, sys.KindRepeat)
	if a, b := m.v.Range(); a != from || b != to {
		m.fail("it is made for %d to %d, not for %d to %d", a, b, from, to)
	}
	m.ranged = true
	return m.is(nr)
}

func (m *matcher) is(nr uintptr) *matcher {
	if m.v.NR() != nr {
		m.fail("it is %s, not %s", sys.Name(m.v.NR()), sys.Name(nr))
	}
	return m
}

// ahead reports whether the call n further on is the system call nr.
func (m *matcher) ahead(n int, nr uintptr) bool {
	if m.next+n >= m.end {
		return false
	}
	v := m.p.View(m.next + n)
	return v.Kind() == sys.KindCall && v.NR() == nr
}

// aheadStr reports whether the next call is nr and has s as argument i.
func (m *matcher) aheadStr(nr uintptr, i int, s string) bool {
	if !m.ahead(0, nr) {
		return false
	}
	have, ok := m.p.View(m.next).Str(i)
	return ok && have == s
}

// num requires that the next argument is a number.
func (m *matcher) num(n int) *matcher { return m.word(uint64(n)) }

func (m *matcher) word(n uint64) *matcher {
	if i := m.arg; m.v.Arg(i) != n || m.v.IsSlot(i) || m.v.IsCounter(i) {
		m.fail("argument %d is %#x, not %#x", i, m.v.Arg(i), n)
	}
	m.arg++
	return m
}

func (m *matcher) null() *matcher { return m.word(0) }

func (m *matcher) cwd() *matcher { return m.num(unix.AT_FDCWD) }

// any lets the next argument be any number but a channel's, and returns it.
func (m *matcher) any() (*matcher, int) {
	if m.v.IsSlot(m.arg) || m.v.IsCounter(m.arg) {
		m.fail("argument %d is no plain number", m.arg)
	}
	m.arg++
	return m, int(m.v.Arg(m.arg - 1))
}

// counter requires that the next argument is the counter.
func (m *matcher) counter() *matcher {
	if !m.v.IsCounter(m.arg) {
		m.fail("argument %d is not the counter", m.arg)
	}
	m.arg++
	return m
}

// slot requires that the next argument is the value in slot s.
func (m *matcher) slot(s sys.Slot) *matcher {
	if i := m.arg; !m.v.IsSlot(i) || sys.Slot(m.v.Arg(i)) != s || m.v.IsCounter(i) {
		m.fail("argument %d is not the descriptor in $%d", i, s)
	}
	m.arg++
	return m
}

// str requires that the next argument is a string.
func (m *matcher) str(s string) *matcher {
	have, ok := m.v.Str(m.arg)
	if !ok || have != s {
		m.fail("argument %d is %q, not %q", m.arg, have, s)
	}
	m.arg++
	return m
}

// optional requires a string, or NULL for an empty one.
func (m *matcher) optional(s string) *matcher {
	if s == "" {
		return m.null()
	}
	return m.str(s)
}

// text returns the next argument, which must be a string.
func (m *matcher) text() (*matcher, string) {
	have, ok := m.v.Str(m.arg)
	if !ok {
		m.fail("argument %d is no string", m.arg)
	}
	m.arg++
	return m, have
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

// buffer requires that the next argument points to n bytes, which the kernel writes.
func (m *matcher) buffer(n int) *matcher {
	if have := m.v.Mem(m.arg); len(have) != n {
		m.fail("argument %d points to %d bytes, not to %d", m.arg, len(have), n)
	}
	m.arg++
	return m
}

// list requires that the next argument is an array of strings.
func (m *matcher) list(words []string) *matcher {
	if !m.v.ListIs(m.arg, words) {
		m.fail("argument %d is not the list %q", m.arg, words)
	}
	m.arg++
	return m
}

// atLeast requires that a result below n is a failure.
func (m *matcher) atLeast(n int) *matcher {
	if m.v.Min() != n {
		m.fail("a result below %d is a failure, not one below %d", m.v.Min(), n)
	}
	m.least = true
	return m
}

// or requires that the call may fail in this way, too.
func (m *matcher) or(t tolerated) *matcher { return m.orSkip(t, 0) }

// orSkip is or, with the number of calls that are left out then.
func (m *matcher) orSkip(t tolerated, skip int) *matcher {
	if e, n, ok := m.v.Tolerated(m.tols); !ok || e != t.errno || n != skip {
		m.failFor(Tolerance, "it does not tolerate %s, leaving out %d calls", errname(t.errno), skip)
	}
	m.tols++
	return m
}

// keeps requires that the result goes to a slot, and returns that.
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

// opens is keeps for a descriptor, which has to be closed or replaced later.
func (m *matcher) opens() sys.Slot {
	s := m.keeps()
	m.live = append(m.live, s)
	return s
}

// writes requires that the result is also written into memory, and returns the address.
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

func (m *matcher) forget(s sys.Slot) {
	if i := slices.Index(m.live, s); i >= 0 {
		m.live = slices.Delete(m.live, i, i+1)
	}
}

// failure requires a call that always fails.
func (m *matcher) failure(claim Claim, e syscall.Errno) *matcher {
	m.take(claim, sys.KindFail)
	if m.v.Errno() != e {
		m.fail("it fails with %s, not with %s", errname(m.v.Errno()), errname(e))
	}
	m.errno = true
	return m
}

// expect requires waiting for the child in slot pid.
func (m *matcher) expect(claim Claim, pid sys.Slot, killed bool, e syscall.Errno) {
	m.take(claim, sys.KindExpect)
	want := 0
	if killed {
		want = 1
	}
	if _, to := m.v.Range(); m.v.Keep() != pid || to != want || m.v.Errno() != e {
		m.fail("it does not wait for the child as expected")
	}
	m.kept, m.ranged, m.errno = true, true, true
}

// child requires a process of this kind, which shares so much with the one at hand, and checks its calls by body. It returns the slot that
// has its pid, and the address that its pidfd is written to.
func (m *matcher) child(claim Claim, kind sys.Kind, shares int, body func()) (pid sys.Slot, pidfd uint64) {
	m.take(claim, kind)
	n, have := m.v.Range()
	if have != shares {
		m.fail("its child shares %d with it, not %d", have, shares)
	}
	m.ranged, m.kept, m.into = true, true, true
	pid, pidfd = m.v.Keep(), m.v.Into()
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

// process requires that the process at hand has no more calls.
func (m *matcher) process() {
	m.done()
	if m.next != m.end {
		m.at = m.next
		m.failFor(Order, "%s is not expected", m.p.CallName(m.at))
	}
	m.at, m.v = -1, sys.View{}
}
