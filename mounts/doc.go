// Package mounts builds a private root file system from an ordered list of operations, as system calls written beforehand.
//
// The list is plain data: bind this there, a tmpfs here, a symlink, a file with this content. [Lower] looks at the host once, and
// appends to a program the calls for what it saw: an empty tmpfs stacked on "/", the operations in order, pivot_root, and the
// old root detached. If the world changed in between, a call fails and so does the start.
//
//	tree := mounts.Tree{Ops: []mounts.Op{
//		{Kind: mounts.Bind, Source: "/usr", Dest: "/usr", Flags: mounts.Flags{mounts.ReadOnly}},
//		{Kind: mounts.Proc, Dest: "/proc"},
//		{Kind: mounts.Tmpfs, Dest: "/tmp", Size: 64 << 20},
//	}}
//	seen, err := mounts.Lower(&program, tree, mounts.Have{NewAPI: true, Openat2: true}, &mounts.Host{})
//
// Two rules hold for every operation. Nothing is ever created on the host: mount points are made only in the sandbox's own
// tmpfs file systems, and must exist where the place is the host's. And no destination is reached through a symlink: each is
// walked from a descriptor of the new root with openat2(RESOLVE_NO_SYMLINKS), or name by name where openat2 is missing.
//
// It needs a mount namespace of its own and CAP_SYS_ADMIN over it. It does not protect what it shows: a writable bind is
// writable, a read-only one can be read, and Unix sockets in it can be connected to.
package mounts
