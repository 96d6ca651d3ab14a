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

// namedCall is a call and its name.
type namedCall struct {
	name string
	call call
}

// callOf returns the call of a name, if it is one of calls.
func callOf(name string) (c call, ok bool) {
	for i := range calls {
		if calls[i].name == name {
			return calls[i].call, true
		}
	}
	return call{}, false
}

// calls are those of [plan.Explain]. A test compares them.
var calls = [...]namedCall{
	{"open", call{open, cwd, 0, none, 1, false}}, {"openat", call{open, 0, 1, none, 2, false}}, {"openat2", call{open, 0, 1, none, none, false}}, {"creat", call{open, cwd, 0, none, none, false}},
	{"execve", call{execute, cwd, 0, none, 0, false}}, {"execveat", call{execute, 0, 1, none, 0, false}},
	{"connect", call{connect, none, 1, none, 0, false}}, {"bind", call{bindTo, none, 1, none, 0, true}},
	{"sendto", call{sendName, none, none, none, 0, false}}, {"sendmmsg", call{sendName, none, none, none, 0, false}},
	{"chdir", call{look, cwd, 0, none, 0, false}},
	{"mkdir", call{entry, cwd, 0, none, 0, true}}, {"mkdirat", call{entry, 0, 1, none, 0, true}}, {"rmdir", call{entry, cwd, 0, none, 0, false}},
	{"unlink", call{entry, cwd, 0, none, 0, false}}, {"unlinkat", call{entry, 0, 1, none, 0, false}},
	{"rename", call{entry, cwd, 0, cwd, 0, false}}, {"renameat", call{entry, 0, 1, 2, 0, false}}, {"renameat2", call{entry, 0, 1, 2, 0, false}},
	{"link", call{entry, cwd, 1, none, 0, true}}, {"linkat", call{entry, 2, 3, none, 0, true}},
	{"symlink", call{entry, cwd, 1, none, 0, true}}, {"symlinkat", call{entry, 1, 2, none, 0, true}},
	{"mknod", call{entry, cwd, 0, none, 0, true}}, {"mknodat", call{entry, 0, 1, none, 0, true}},
	{"chmod", call{inode, cwd, 0, none, 0, false}}, {"fchmodat", call{inode, 0, 1, none, 0, false}}, {"fchmodat2", call{inode, 0, 1, none, 0, false}},
	{"chown", call{inode, cwd, 0, none, 0, false}}, {"lchown", call{inode, cwd, 0, none, 0, false}}, {"fchownat", call{inode, 0, 1, none, 0, false}},
	{"truncate", call{inode, cwd, 0, none, 0, false}}, {"utime", call{inode, cwd, 0, none, 0, false}}, {"utimes", call{inode, cwd, 0, none, 0, false}},
	{"utimensat", call{inode, 0, 1, none, 0, false}},
	{"stat", call{look, cwd, 0, none, 0, false}}, {"lstat", call{look, cwd, 0, none, 0, false}}, {"newfstatat", call{look, 0, 1, none, 0, false}}, {"statx", call{look, 0, 1, none, 0, false}},
	{"access", call{look, cwd, 0, none, 0, false}}, {"faccessat", call{look, 0, 1, none, 0, false}}, {"faccessat2", call{look, 0, 1, none, 0, false}},
	{"readlink", call{look, cwd, 0, none, 0, false}}, {"readlinkat", call{look, 0, 1, none, 0, false}},
}
