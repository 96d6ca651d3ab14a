package entry

import "unsafe"

const allNamespaces = cloneNewNS | cloneNewUser | cloneNewPid | cloneNewIPC | cloneNewUTS | cloneNewNet | cloneNewCgroup

// options are those of bubblewrap that choose namespaces (bwrap(1)), and what they do to the flags of clone(2).
var options = [...]struct {
	name       string
	set, clear uintptr
}{
	{"--unshare-all", allNamespaces, 0}, {"--share-net", 0, cloneNewNet}, {"--unshare-user", cloneNewUser, 0}, {"--unshare-user-try", cloneNewUser, 0},
	{"--unshare-ipc", cloneNewIPC, 0}, {"--unshare-pid", cloneNewPid, 0}, {"--unshare-net", cloneNewNet, 0}, {"--unshare-uts", cloneNewUTS, 0},
	{"--unshare-cgroup", cloneNewCgroup, 0}, {"--unshare-cgroup-try", cloneNewCgroup, 0},
}

// unguessed are options by which a run takes other namespaces, or none: of nsrun run, and of bubblewrap, by how they begin. A limit may take a
// cgroup, and with that the sandbox makes its cgroup namespace later.
var unguessed = [...]string{"--backend", "--isolation", "--limit", "--net", "--userns", "--pidns", "--args", "--help", "--version"}

// guess returns the namespaces that a command line is likely to ask for, as flags of clone(2); 0 if it is no run. [ForkAhead]
// compares: a wrong guess costs time, and a wait where it has reached a limit on namespaces ([Discarded]).
//
//go:nosplit
//go:norace
//go:nocheckptr
func guess(stack unsafe.Pointer) (flags uintptr) {
	argc := int(*word(stack))
	if argc < 3 {
		return 0
	}
	bwrap := equal(base(*text(unsafe.Add(stack, wordSize))), "bwrap")
	arg := 1
	if !bwrap {
		if !equal(*text(unsafe.Add(stack, 2*wordSize)), "run") {
			return 0
		}
		flags, arg = allNamespaces, 2
	}
	for ; arg < argc; arg++ {
		p := *text(unsafe.Add(stack, (1+arg)*wordSize))
		if equal(p, "--") {
			break
		}
		for i := range unguessed {
			if begins(p, unguessed[i]) {
				return 0
			}
		}
		for i := range options {
			if bwrap && equal(p, options[i].name) {
				flags = flags&^options[i].clear | options[i].set
			}
		}
	}
	if bwrap {
		flags |= cloneNewNS
		if uid, _, _ := rawSyscall6(sysGetuid, 0, 0, 0, 0, 0, 0); uid != 0 {
			flags |= cloneNewUser
		}
	}
	return flags
}

// base returns the last component of a path.
//
//go:nosplit
//go:norace
//go:nocheckptr
func base(path unsafe.Pointer) unsafe.Pointer {
	name := path
	for p := path; *(*byte)(p) != 0; p = unsafe.Add(p, 1) {
		if *(*byte)(p) == '/' {
			name = unsafe.Add(p, 1)
		}
	}
	return name
}

// begins reports whether a C string begins with s.
//
//go:nosplit
//go:norace
//go:nocheckptr
func begins(c unsafe.Pointer, s string) bool {
	for i := range len(s) {
		if *(*byte)(unsafe.Add(c, i)) != *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i)) {
			return false
		}
	}
	return true
}

// equal reports whether a C string is s.
//
//go:nosplit
//go:norace
//go:nocheckptr
func equal(c unsafe.Pointer, s string) bool {
	return begins(c, s) && *(*byte)(unsafe.Add(c, len(s))) == 0
}
