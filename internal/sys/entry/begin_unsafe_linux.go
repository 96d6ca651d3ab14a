package entry

import (
	"runtime"
	"unsafe"
)

// This file is code that runs before Go's runtime, on the stack that the kernel has made: the entry point of cmd/nsrun calls begin. There is
// no g, no heap and no second thread, so every function is nosplit, allocates nothing, writes no pointer, and calls nothing but system calls
// and its like. Without the entry point (another program that imports nsrun, or a linker other than Go's) none of this happens, and a start
// is slower: all else is the same, but that ignored signals are unknown. Where a C library is linked no namespaces are made ahead.

// enabled switches the work of begin off for measurements. A start of `nsrun version` takes 0.87 of its time with it.
const enabled = true

// makeAhead switches off what ahead_unsafe_linux.go does.
const makeAhead = true

// holdHelper has the namespaces of nsrun run made when Go's runtime has started, and not before: a run plans for so long that they are ready in time.
// It takes 0.98 of its time, and 0.95 of its CPU time. A start as bubblewrap has to wait for them, so that it would take 1.03.
const holdHelper = true

// found is what begin has found out and done.
var found struct {
	lowered  bool    // nofile was lowered for the time that Go's runtime starts
	inserted [2]bool // oneProcessor and noTraceback were added to the environment
	nofile   Limit   // as this process was started with
	ignored  uint64
	mask     uint64  // the signals that this process was started with blocked
	masked   bool    // mask is known
	noGain   bool    // no_new_privs is set
	slack    uintptr // timer slack, in nanoseconds; 0 if it is as this process was started with
}

// Ignored returns the set of the signals that this process was started with ignored: bit n-1 is signal n. It is empty if begin has not run.
func Ignored() uint64 { return found.ignored }

// NoNewPrivs reports whether every thread of this process has no_new_privs: begin sets it in a start as bubblewrap, which does so first of all.
func NoNewPrivs() bool { return found.noGain }

// Inserted returns the names of the variables that begin has added to this process's environment. The program removes them before it looks
// at the environment.
func Inserted() (names []string) {
	for i, name := range []string{"GOMAXPROCS", "GOTRACEBACK"} {
		if found.inserted[i] {
			names = append(names, name)
		}
	}
	return names
}

// Entered is what the entry point calls.
var Entered = begin

// begin gets the address of argc, which argv, the environment and the auxiliary vector follow (System V ABI, process initialisation), and
// returns the address of its new place. program is where to go on, if that is another program than this: see appended_unsafe_linux.go.
//
//   - It refuses a start that Go's runtime would end with a traceback, because of a limit: see needs, checkFiles and checkProcesses.
//   - As bubblewrap it sets no_new_privs, which threads inherit: to set it for those that exist takes a filter (30 us).
//   - It notes which signals are ignored, since the runtime takes most of them over.
//   - It lowers the limit on open files, so that the runtime cannot open what it would read of cgroups and huge pages (100 us); read restores it.
//     Not where a C library is linked, whose constructors are still to run: the race detector's looks for a descriptor above 2 without end.
//   - It adds GOMAXPROCS=1, as a run has no use for a second thread that executes Go (150 us), and GOTRACEBACK=none, as the state of Go's
//     goroutines is of no use to a user. A caller's own values stay.
//   - It switches off the profile of allocations, which nobody reads: the runtime would take the first sample before it finds that out, and
//     so load tables of functions (50 us).
//
//go:nosplit
//go:norace
//go:nocheckptr
func begin(stack unsafe.Pointer) (at unsafe.Pointer, program uintptr) {
	if *word(stack) > 0 && equal(base(*text(unsafe.Add(stack, wordSize))), AppendedName) {
		return stack, runAppended(stack)
	}
	if !enabled {
		return stack, 0
	}
	bwrap := calledBwrap(stack)
	if bwrap {
		_, _, e := rawSyscall6(sysPrctl, setNoNewPrivs, 1, 0, 0, 0, 0)
		found.noGain = e == 0
	}
	for i := range needs {
		check(&needs[i], bwrap)
	}
	if noteNofile() {
		checkFiles(bwrap)
	}
	checkProcesses(bwrap)
	setMask(nil, &found.mask)
	found.masked = true
	flags, own := guess(stack)
	if flags != 0 && makeAhead && !(sparesBusy && busy()) {
		startAhead(flags, holdHelper && !bwrap)
	}
	switch {
	case own && bwrap:
		longSlack(slackBwrap)
	case own:
		longSlack(slack)
	}
	noteIgnored()
	if auxiliary(stack, auxInterpreter) == 0 {
		lowerNofile()
	}
	runtime.MemProfileRate = 0
	return insert(stack), 0
}

// noteIgnored asks for the action of each signal: 64 calls of 0.1 us.
//
//go:nosplit
//go:norace
//go:nocheckptr
func noteIgnored() {
	const ignore = 1      // SIG_IGN
	var action [4]uintptr // struct sigaction of the kernel, which begins with the handler
	for sig := uintptr(1); sig <= 64; sig++ {
		_, _, e := rawSyscall6(sysRtSigaction, sig, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if e == 0 && action[0] == ignore {
			found.ignored |= 1 << (sig - 1)
		}
	}
}

// noteNofile reads the limit on open files, and reports whether it could.
//
//go:nosplit
//go:norace
//go:nocheckptr
func noteNofile() bool {
	if _, _, e := rawSyscall6(sysPrlimit64, 0, rlimitNofile, 0, uintptr(unsafe.Pointer(&found.nofile)), 0, 0); e != 0 {
		found.nofile = Limit{}
		return false
	}
	return true
}

// Kinds of entries of the auxiliary vector: getauxval(3).
const (
	auxPageSize    = 6  // AT_PAGESZ
	auxInterpreter = 7  // AT_BASE: where ld.so is, if the kernel has started that, and it this program
	auxSecure      = 23 // AT_SECURE: the file has given the process privileges
)

// auxiliary returns an entry of the auxiliary vector, which lies behind the environment; 0 if there is none.
//
//go:nosplit
//go:norace
//go:nocheckptr
func auxiliary(stack unsafe.Pointer, kind uintptr) uintptr {
	p := unsafe.Add(stack, (int(*word(stack))+2)*wordSize)
	for *word(p) != 0 {
		p = unsafe.Add(p, wordSize)
	}
	for p = unsafe.Add(p, wordSize); *word(p) != 0; p = unsafe.Add(p, 2*wordSize) {
		if *word(p) == kind {
			return *word(unsafe.Add(p, wordSize))
		}
	}
	return 0
}

// lowerNofile lowers the soft limit on open files to three, the standard descriptors.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lowerNofile() {
	const standard = 3
	if found.nofile.Soft <= standard {
		return
	}
	low := Limit{standard, found.nofile.Hard}
	_, _, e := rawSyscall6(sysPrlimit64, 0, rlimitNofile, uintptr(unsafe.Pointer(&low)), 0, 0, 0)
	found.lowered = e == 0
}

// Variables for Go's runtime, as C strings.
var (
	oneProcessor = [...]byte{'G', 'O', 'M', 'A', 'X', 'P', 'R', 'O', 'C', 'S', '=', '1', 0}
	noTraceback  = [...]byte{'G', 'O', 'T', 'R', 'A', 'C', 'E', 'B', 'A', 'C', 'K', '=', 'n', 'o', 'n', 'e', 0}
)

// insert moves argc and argv down by two words, and puts the variables that are not set there, in front of the environment. If only one is
// missing, it stands there twice: arm64 wants a stack pointer that is a multiple of 16.
//
//go:nosplit
//go:norace
//go:nocheckptr
func insert(stack unsafe.Pointer) unsafe.Pointer {
	processors, traceback := unsafe.Pointer(&oneProcessor), unsafe.Pointer(&noTraceback)
	environ := unsafe.Add(stack, (int(*word(stack))+2)*wordSize)
	for p := environ; *word(p) != 0; p = unsafe.Add(p, wordSize) {
		if hasName(*text(p), unsafe.Pointer(&oneProcessor)) {
			processors = nil
		} else if hasName(*text(p), unsafe.Pointer(&noTraceback)) {
			traceback = nil
		}
	}
	found.inserted[0], found.inserted[1] = processors != nil, traceback != nil
	if processors == nil {
		processors = traceback
	}
	if traceback == nil {
		traceback = processors
	}
	if processors == nil {
		return stack
	}
	for p := stack; p != environ; p = unsafe.Add(p, wordSize) {
		*word(unsafe.Add(p, -2*wordSize)) = *word(p)
	}
	*word(unsafe.Add(environ, -2*wordSize)) = uintptr(processors)
	*word(unsafe.Add(environ, -wordSize)) = uintptr(traceback)
	return unsafe.Add(stack, -2*wordSize)
}

const wordSize = int(unsafe.Sizeof(uintptr(0)))

// word is the word at an address.
//
//go:nosplit
//go:norace
//go:nocheckptr
func word(address unsafe.Pointer) *uintptr { return (*uintptr)(address) }

// text is the pointer at an address, which points to a C string.
//
//go:nosplit
//go:norace
//go:nocheckptr
func text(address unsafe.Pointer) *unsafe.Pointer { return (*unsafe.Pointer)(address) }

// hasName reports whether a variable has the name of another one: two C strings.
//
//go:nosplit
//go:norace
//go:nocheckptr
func hasName(variable, other unsafe.Pointer) bool {
	for i := 0; ; i++ {
		a, b := *(*byte)(unsafe.Add(variable, i)), *(*byte)(unsafe.Add(other, i))
		if a != b {
			return false
		}
		if a == '=' {
			return true
		}
	}
}
