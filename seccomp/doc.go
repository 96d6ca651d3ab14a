// Package seccomp holds system call filters as data, compiles them to classic BPF, interprets them without a kernel, and installs
// them.
//
// A [Profile] is a table: which calls are allowed, which are refused with what errno, and which depend on an argument. [Compile]
// turns it into a [Filter] for one architecture; the built-in profiles are compiled beforehand and checked in, so that
// [Builtin] costs nothing. Everything but [Lower], [Apply] and [Have] is pure and works on any GOOS, for amd64 and arm64.
//
//	main, err := seccomp.Builtin("default", seccomp.AMD64)
//	deny, err := seccomp.Deny([]string{"io_uring_setup", "memfd_create"}, seccomp.AMD64)
//	err = seccomp.Apply(main, deny) // this thread, and whatever it execs, from now on and for ever
//
// Arguments are compared by their low 32 bits, always: every argument that is looked at is an int or a 32-bit set of flags in the
// kernel, and a filter that compares all 64 bits lets the same call through with garbage in the upper half (CVE-2019-10063).
//
// What a filter does not do. It sees numbers, not memory: paths, struct sockaddr and the arguments of clone3, openat2 and
// sched_setattr are out of its sight, which is why those calls do not exist here. It says nothing about which files, which
// processes or which hosts a call reaches: mounts, namespaces and Landlock do. It does not restrict ioctl beyond two commands for
// terminals, nor setsockopt or prctl. An allowed call with a kernel bug behind it is still a way out. It does not cover other threads of this
// process ([Apply] is for one thread), nor a process that was already running.
package seccomp

//go:generate go run ./generate numbers
//go:generate go run ./generate filters
