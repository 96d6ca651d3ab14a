package entry

import "unsafe"

// need is a limit below which Go's runtime cannot start.
type need struct {
	resource uintptr
	name     string // as a user knows it
	least    uint64 // in units of ulimit, 1,024 bytes
}

// needs were found by lowering each limit until a start failed, and have some room: a test does that again. With 800 MB of addresses most starts
// succeed, as the runtime does without a reservation that the limit refuses; with 1,200 MB none does, as that takes what its heap needs.
var needs = [...]need{
	{rlimitAS, "RLIMIT_AS is too low: ulimit -v is ", 1_400_000},
	{rlimitData, "RLIMIT_DATA is too low: ulimit -d is ", 100_000},
}

// From include/uapi/asm-generic/resource.h.
const (
	rlimitData   = 2
	rlimitNproc  = 6
	rlimitNofile = 7
	rlimitAS     = 9
)

// Exit codes of a start that fails: nsrun's, and bubblewrap's.
const (
	codeFailed = 125
	codeBwrap  = 1
)

// check ends this process with a message if a limit is too low.
//
//go:nosplit
//go:norace
//go:nocheckptr
func check(n *need, bwrap bool) {
	soft := limit(n.resource) >> 10
	if soft >= n.least {
		return
	}
	sayName(bwrap)
	say(n.name)
	sayNumber(soft)
	say(", and a start needs ")
	sayNumber(n.least)
	say("; raise it\n")
	end(bwrap)
}

// limit returns a soft limit; the highest number if it cannot be read.
//
//go:nosplit
//go:norace
//go:nocheckptr
func limit(resource uintptr) uint64 {
	var l Limit
	if _, _, e := rawSyscall6(sysPrlimit64, 0, resource, 0, uintptr(unsafe.Pointer(&l)), 0, 0); e != 0 {
		return ^uint64(0)
	}
	return l.Soft
}

// files is how many more files a start needs that it can open: Go's runtime takes three, and with fewer than these an error of nsrun's may not
// name the limit. No sandbox can be made with fewer than eleven.
const files = 7

// checkFiles ends this process with a message if RLIMIT_NOFILE leaves no room for files. What counts is the hard limit, to which Go's runtime
// raises the soft one, and what this process has inherited. Where there is room it takes some ten calls of 0.1 us.
//
//go:nosplit
//go:norace
//go:nocheckptr
func checkFiles(bwrap bool) {
	const getFD = 1 // F_GETFD, which fails if fd is not open
	open, free := uint64(0), uint64(0)
	for fd := uint64(0); free < files && fd < found.nofile.Hard; fd++ {
		if _, _, e := rawSyscall6(sysFcntl, uintptr(fd), getFD, 0, 0, 0, 0); e == 0 {
			open++
		} else {
			free++
		}
	}
	if free == files {
		return
	}
	sayName(bwrap)
	say("RLIMIT_NOFILE is too low: ulimit -n is ")
	sayNumber(found.nofile.Hard)
	say(", ")
	sayNumber(open)
	say(" files are open, a start needs ")
	sayNumber(files)
	say(" more, a run some 25; raise it\n")
	end(bwrap)
}

const (
	// processes is how many more processes and threads a start needs: Go's runtime makes four or five, and a sandbox a few.
	processes = 10
	// mayBeReached is the limit on processes above which a start does not try whether it has been reached, as that takes half a millisecond.
	mayBeReached = 1000
)

// checkProcesses ends this process with a message if RLIMIT_NPROC leaves no room. Nobody can ask how many processes the kernel has counted for
// this user, so a chain of processes is started, each of which waits for the next one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func checkProcesses(bwrap bool) {
	soft := limit(rlimitNproc)
	if soft >= mayBeReached || roomFor(processes) {
		return
	}
	sayName(bwrap)
	say("RLIMIT_NPROC is too low: ulimit -u is ")
	sayNumber(soft)
	say(", and a start needs ")
	sayNumber(processes)
	say(" processes and threads more than this user has; raise it\n")
	end(bwrap)
}

// roomFor reports whether n processes can be started.
//
//go:nosplit
//go:norace
//go:nocheckptr
func roomFor(n int) bool {
	for depth := 0; ; depth++ {
		pid, e := uintptr(0), uintptr(0)
		if depth < n {
			pid, _, e = rawSyscall6(sysClone, sigchld, 0, 0, 0, 0, 0)
		}
		if depth < n && e == 0 && pid == 0 { // the child starts the next one
			continue
		}
		room := e == 0 && (pid == 0 || endsWell(pid))
		if depth == 0 {
			return room
		}
		code := uintptr(1)
		if room {
			code = 0
		}
		rawSyscall6(sysExitGroup, code, 0, 0, 0, 0, 0)
	}
}

// endsWell waits for a child, and reports whether it has ended with 0. Where the kernel reaps children because SIGCHLD is ignored, nobody
// knows, and it is true.
//
//go:nosplit
//go:norace
//go:nocheckptr
func endsWell(pid uintptr) bool {
	const eintr = 4
	status := uint32(0)
	for {
		_, _, e := rawSyscall6(sysWait4, pid, uintptr(unsafe.Pointer(&status)), 0, 0, 0, 0)
		if e != eintr {
			return e != 0 || status == 0
		}
	}
}

// sayName begins a message.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sayName(bwrap bool) {
	if bwrap {
		say("bwrap: ")
	} else {
		say("nsrun: ")
	}
}

// end ends this process because it cannot start.
//
//go:nosplit
//go:norace
//go:nocheckptr
func end(bwrap bool) {
	code := uintptr(codeFailed)
	if bwrap {
		code = codeBwrap
	}
	rawSyscall6(sysExitGroup, code, 0, 0, 0, 0, 0)
}

// say writes to standard error.
//
//go:nosplit
//go:norace
//go:nocheckptr
func say(text string) {
	rawSyscall6(sysWrite, 2, uintptr(unsafe.Pointer(unsafe.StringData(text))), uintptr(len(text)), 0, 0, 0)
}

// sayNumber writes a number to standard error.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sayNumber(n uint64) {
	var digits [20]byte
	i := uintptr(len(digits))
	for {
		i--
		*(*byte)(unsafe.Add(unsafe.Pointer(&digits), i)) = byte('0' + n%10)
		if n /= 10; n == 0 {
			break
		}
	}
	rawSyscall6(sysWrite, 2, uintptr(unsafe.Pointer(&digits))+i, uintptr(len(digits))-i, 0, 0, 0)
}

// calledBwrap reports whether the name of the program, or its first argument, is bwrap.
//
//go:nosplit
//go:norace
//go:nocheckptr
func calledBwrap(stack unsafe.Pointer) bool {
	argc := *word(stack)
	return argc > 0 && equal(base(*text(unsafe.Add(stack, wordSize))), "bwrap") || argc > 1 && equal(*text(unsafe.Add(stack, 2*wordSize)), "bwrap")
}
