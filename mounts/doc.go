// Package mounts builds a private root file system from an ordered list of operations. It writes all system calls down before the first one
// is made.
//
// The list is plain data: bind this there, a tmpfs here, a symlink, a file with this content. [Apply] builds the tree for this process. nsrun
// itself uses [Lower], which looks at the host once and appends the system calls to a program for another process: an empty tmpfs stacked on
// "/", the operations in order, pivot_root, and the detaching of the old root. If the host changes before the program runs, a call fails, and
// so does the start.
//
//	tree := mounts.Tree{Ops: []mounts.Op{
//		{Kind: mounts.Bind, Source: "/usr", Dest: "/usr", Flags: mounts.Flags{mounts.ReadOnly}},
//		{Kind: mounts.Proc, Dest: "/proc"},
//		{Kind: mounts.Tmpfs, Dest: "/tmp", Size: 64 << 20},
//	}}
//	seen, err := mounts.Apply(tree, mounts.Have{NewAPI: true, Openat2: true})
//
// Two rules hold for every operation. First, nothing is ever created on the host: mount points are made only in the sandbox's own tmpfs
// file systems, and must exist already in a directory of the host. Second, no destination is reached through a symlink: each is opened from
// a descriptor of the new root, with openat2(RESOLVE_NO_SYMLINKS) or, without openat2, name by name. A path names it only if all directories
// above it are the sandbox's own, or a new procfs's. A tree with Compat set follows
// bubblewrap's rules instead, and keeps neither: see [Tree].
//
// The caller needs a mount namespace of its own and CAP_SYS_ADMIN over it. The package does not protect what a tree shows: a writable bind
// can be written, a read-only one can be read, and Unix sockets in either accept connections.
package mounts
