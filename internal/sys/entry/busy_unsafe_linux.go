package entry

import "unsafe"

// sparesBusy has no namespaces made ahead where every processor has something to do: the two processes for it would only take time from others. With
// two runs at a time on two processors, 1.08 times as many end.
const sparesBusy = true

var loadFile = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 'l', 'o', 'a', 'd', 'a', 'v', 'g', 0}

// busy reports whether as many processes run now, this one among them, as there are processors for it. The kernel counts those of the whole
// machine (proc_loadavg(5)). Where it does not say, nothing is busy.
//
//go:nosplit
//go:norace
//go:nocheckptr
func busy() bool {
	fd, _, e := rawSyscall6(sysOpenat, currentDir, uintptr(unsafe.Pointer(&loadFile)), readOnly, 0, 0, 0)
	if e != 0 {
		return false
	}
	var text [64]byte
	n, _, e := rawSyscall6(sysPread64, fd, uintptr(unsafe.Pointer(&text)), uintptr(len(text)), 0, 0, 0)
	rawSyscall6(sysClose, fd, 0, 0, 0, 0, 0)
	if e != 0 || !getCPUs(0, &affinity.own) {
		return false
	}
	processors := 0
	for i := range affinity.own {
		for word := affinity.own[i]; word != 0; word &= word - 1 {
			processors++
		}
	}
	return running(unsafe.Pointer(&text), int(n)) >= processors
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
