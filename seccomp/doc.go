// Package seccomp compiles system call filters to classic BPF, interprets them without a kernel, and installs them.
//
// A [Profile] is a table of the calls that are allowed, those that are refused and with which errno, and those that depend on an argument.
// [Compile] turns it into a [Filter] for one architecture. The compiled form of the built-in profiles is part of the source, so [Builtin]
// costs nothing. Everything but [Lower], [LowerRaw], [Apply] and [Have] is pure and works on any GOOS, for amd64 and arm64.
//
//	main, err := seccomp.Builtin("default", seccomp.AMD64)
//	deny, err := seccomp.Deny([]string{"io_uring_setup", "memfd_create"}, seccomp.AMD64)
//	err = seccomp.Apply(main, deny) // this thread, and whatever it execs, from now on and for ever
//
// Arguments are always compared by their low 32 bits. Every compared argument is an int or a 32-bit set of flags in the kernel, which
// ignores the upper half. A filter that compares all 64 bits lets the same call through with garbage there (CVE-2019-10063).
//
// A filter sees numbers, not memory. It cannot see paths, struct sockaddr, or the arguments of clone3, openat2 and sched_setattr, which is
// why the built-in profiles refuse those three. It does not decide which files, processes or hosts a call reaches; mounts, namespaces and
// Landlock do. It restricts ioctl only for four terminal commands, and it does not restrict setsockopt or prctl. A kernel bug behind an
// allowed call remains a way out. A filter does not cover the other threads of this process ([Apply] is for one thread), nor a process that
// was already running.
package seccomp

//go:generate go run ./generate numbers
//go:generate go run ./generate filters
