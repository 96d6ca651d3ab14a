package entry

import "unsafe"

// sparesBusy has no namespaces made ahead where every processor has something to do: the processes for it would only take time from others. With
// two runs at a time on two processors, 1.08 times as many end.
const sparesBusy = true

// mostPressure is the share of the last ten seconds, in percent, in which a process may have waited for a processor before the machine counts as busy.
// With two runs at a time on two processors it is 45 and more, with one after the other 14: the kernel takes the last one's mounts apart while the next one
// starts. Without this condition such a moment counts as busy, and 100 binds take 1.05 times as long, 1000 1.14 times.
const mostPressure = 20

var (
	loadFile     = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 'l', 'o', 'a', 'd', 'a', 'v', 'g', 0}
	pressureFile = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 'p', 'r', 'e', 's', 's', 'u', 'r', 'e', '/', 'c', 'p', 'u', 0}
)

// busy reports whether as many processes run now, this one among them, as there are processors for it, and processes have waited for one lately. The kernel
// counts those of the whole machine (proc_loadavg(5), Documentation/accounting/psi.rst). Where it does not count who runs, nothing is busy; where it
// does not count who has waited, only who runs now matters.
//
//go:nosplit
//go:norace
//go:nocheckptr
func busy() bool {
	var text [64]byte
	n := readStart(unsafe.Pointer(&loadFile), &text)
	if n == 0 || !getCPUs(0, &affinity.own) {
		return false
	}
	processors := 0
	for i := range affinity.own {
		for word := affinity.own[i]; word != 0; word &= word - 1 {
			processors++
		}
	}
	if running(unsafe.Pointer(&text), n) < processors {
		return false
	}
	n = readStart(unsafe.Pointer(&pressureFile), &text)
	return n == 0 || pressure(unsafe.Pointer(&text), n) >= mostPressure
}

// readStart reads the beginning of a file, and returns how much that is.
//
//go:nosplit
//go:norace
//go:nocheckptr
func readStart(name unsafe.Pointer, text *[64]byte) int {
	fd, _, e := rawSyscall6(sysOpenat, currentDir, uintptr(name), readOnly, 0, 0, 0)
	if e != 0 {
		return 0
	}
	n, _, e := rawSyscall6(sysPread64, fd, uintptr(unsafe.Pointer(text)), uintptr(len(text)), 0, 0, 0)
	rawSyscall6(sysClose, fd, 0, 0, 0, 0, 0)
	if e != 0 {
		return 0
	}
	return int(n)
}

// pressure reads the percentage from "some avg10=14.57 avg60=18.65 ...", without its fraction. It is 100 if there is no such number.
//
//go:nosplit
//go:norace
//go:nocheckptr
func pressure(text unsafe.Pointer, length int) int {
	for i, n, digits := 1, 0, 0; i < length; i++ {
		c, before := *(*byte)(unsafe.Add(text, i)), *(*byte)(unsafe.Add(text, i-1))
		digit := c >= '0' && c <= '9'
		switch {
		case digit && (digits > 0 || before == '='):
			n, digits = 10*n+int(c-'0'), digits+1
		case digits > 0 && c == '.':
			return n
		case digits > 0:
			return 100
		}
	}
	return 100
}

// running reads how many processes run from the fourth field: "0.20 0.18 0.12 1/80 11206". It is 0 if there is no such number.
//
//go:nosplit
//go:norace
//go:nocheckptr
func running(text unsafe.Pointer, length int) (n int) {
	for i, fields := 0, 0; i < length; i++ {
		switch c := *(*byte)(unsafe.Add(text, i)); {
		case c == ' ':
			fields++
		case fields == 3 && c >= '0' && c <= '9':
			n = 10*n + int(c-'0')
		case fields == 3:
			return n
		}
	}
	return 0
}
