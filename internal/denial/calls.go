package denial

// act is what a call does to what its path names.
type act uint8

const (
	look     act = iota // looks at it
	open                // as its flags say
	execute             //
	entry               // makes or removes the entry of a directory
	inode               // changes it
	connect             // connects a socket to an address
	bindTo              // makes a socket's file
	sendName            // sends what may be a question for a name
)

// call is where a system call has its path: the numbers of arguments, and cwd where there is no directory.
type call struct {
	act       act
	dir, path int8
	dir2      int8 // of a second path, which is the argument behind it
	flags     int8 // of open
	creates   bool // it fails where something is there
}

const (
	cwd  = -1
	none = -2
)

// calls are those of [plan.Explain]. A test compares them.
var calls = map[string]call{
	"open": {open, cwd, 0, none, 1, false}, "openat": {open, 0, 1, none, 2, false}, "openat2": {open, 0, 1, none, none, false}, "creat": {open, cwd, 0, none, none, false},
	"execve": {execute, cwd, 0, none, 0, false}, "execveat": {execute, 0, 1, none, 0, false},
	"connect": {connect, none, 1, none, 0, false}, "bind": {bindTo, none, 1, none, 0, true},
	"sendto": {sendName, none, none, none, 0, false}, "sendmmsg": {sendName, none, none, none, 0, false},
	"chdir": {look, cwd, 0, none, 0, false},
	"mkdir": {entry, cwd, 0, none, 0, true}, "mkdirat": {entry, 0, 1, none, 0, true}, "rmdir": {entry, cwd, 0, none, 0, false},
	"unlink": {entry, cwd, 0, none, 0, false}, "unlinkat": {entry, 0, 1, none, 0, false},
	"rename": {entry, cwd, 0, cwd, 0, false}, "renameat": {entry, 0, 1, 2, 0, false}, "renameat2": {entry, 0, 1, 2, 0, false},
	"link": {entry, cwd, 1, none, 0, true}, "linkat": {entry, 2, 3, none, 0, true},
	"symlink": {entry, cwd, 1, none, 0, true}, "symlinkat": {entry, 1, 2, none, 0, true},
	"mknod": {entry, cwd, 0, none, 0, true}, "mknodat": {entry, 0, 1, none, 0, true},
	"chmod": {inode, cwd, 0, none, 0, false}, "fchmodat": {inode, 0, 1, none, 0, false}, "fchmodat2": {inode, 0, 1, none, 0, false},
	"chown": {inode, cwd, 0, none, 0, false}, "lchown": {inode, cwd, 0, none, 0, false}, "fchownat": {inode, 0, 1, none, 0, false},
	"truncate": {inode, cwd, 0, none, 0, false}, "utime": {inode, cwd, 0, none, 0, false}, "utimes": {inode, cwd, 0, none, 0, false},
	"utimensat": {inode, 0, 1, none, 0, false},
	"stat":      {look, cwd, 0, none, 0, false}, "lstat": {look, cwd, 0, none, 0, false}, "newfstatat": {look, 0, 1, none, 0, false}, "statx": {look, 0, 1, none, 0, false},
	"access": {look, cwd, 0, none, 0, false}, "faccessat": {look, 0, 1, none, 0, false}, "faccessat2": {look, 0, 1, none, 0, false},
	"readlink": {look, cwd, 0, none, 0, false}, "readlinkat": {look, 0, 1, none, 0, false},
}
