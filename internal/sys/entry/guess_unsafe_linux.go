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
var unguessed = [...]struct {
	name string
	own  bool // nsrun itself starts the command nevertheless
}{
	{"--backend=landlock", true}, {"--limit", true},
	{"--backend", false}, {"--isolation", false}, {"--net", false}, {"--userns", false}, {"--pidns", false},
	{"--ask", false}, // it starts a program of the caller's
	{"--args", false}, {"--help", false}, {"--version", false},
}

// guess returns the namespaces that a command line is likely to ask for, as flags of clone(2); 0 if it is no run, or one for which nothing is made
// ahead. [ForkAhead] compares: a wrong guess costs time, and a wait where it has reached a limit on namespaces ([Discarded]). own reports
// whether it is a run whose command nsrun itself is likely to start, and no other program.
//
//go:nosplit
//go:norace
//go:nocheckptr
func guess(stack unsafe.Pointer) (flags uintptr, own bool) {
	argc := int(*word(stack))
	if argc < 3 {
		return 0, false
	}
	bwrap := equal(base(*text(unsafe.Add(stack, wordSize))), "bwrap")
	arg, ahead := 1, true
	if !bwrap {
		if !equal(*text(unsafe.Add(stack, 2*wordSize)), "run") {
			return 0, false
		}
		flags, arg = allNamespaces, 2
	}
	for ; arg < argc; arg++ {
		p := argument(stack, arg, argc)
		if equal(p, "--") {
			break
		}
		if equal(p, "--backend") && equal(argument(stack, arg+1, argc), "landlock") {
			ahead = false
			continue
		}
		if host, ok := networkOf(p, argument(stack, arg+1, argc)); ok && !bwrap {
			if flags |= cloneNewNet; host {
				flags &^= cloneNewNet
			}
			continue
		}
		for i := range unguessed {
			if begins(p, unguessed[i].name) {
				if !unguessed[i].own {
					return 0, false
				}
				ahead = false
				break
			}
		}
		for i := range options {
			if bwrap && equal(p, options[i].name) {
				flags = flags&^options[i].clear | options[i].set
			}
		}
	}
	if !ahead {
		return 0, true
	}
	if bwrap {
		flags |= cloneNewNS
		if uid, _, _ := rawSyscall6(sysGetuid, 0, 0, 0, 0, 0, 0); uid != 0 {
			flags |= cloneNewUser
		}
	}
	return flags, true
}

// networkOf reports whether an argument, or it and the next one, is nsrun's option for the network, and whether that is the host's. With none or an
// allow-list the sandbox has one of its own.
//
//go:nosplit
//go:norace
//go:nocheckptr
func networkOf(p, next unsafe.Pointer) (host, ok bool) {
	const name = "--net"
	switch {
	case equal(p, name):
		return equal(next, "host"), true
	case begins(p, name+"="):
		return equal(unsafe.Add(p, len(name+"=")), "host"), true
	}
	return false, false
}

// none stands for an argument that is missing.
var none byte

// argument returns an argument of the program, or an empty one behind the last.
//
//go:nosplit
//go:norace
//go:nocheckptr
func argument(stack unsafe.Pointer, i, argc int) unsafe.Pointer {
	if i >= argc {
		return unsafe.Pointer(&none)
	}
	return *text(unsafe.Add(stack, (1+i)*wordSize))
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
