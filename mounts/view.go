package mounts

import "strings"

// origin is whose file system is at a path of the new root.
type origin int

const (
	private origin = iota // only this sandbox sees it, so directories and files may be made in it
	host                  // the host's, through a bind
	kernel                // procfs or devpts: nothing can be made in it
	link                  // a symlink that an operation made
	layered               // an overlay
)

// node is what an operation has put at a path.
type node struct {
	origin origin
	source string   // path on the host, if origin is host or kernel
	target string   // of a symlink
	layers []string // of an overlay, topmost first
	dir    bool
	op     int    // number of the operation that put it there, from 1; compat trees only
	secure bool   // it and everything above it are private
	perm   uint32 // of a directory that is no mount point: its permissions
}

// File types, as in st_mode.
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

// mode returns the file type of n.
func (n node) mode() uint32 {
	switch {
	case n.origin == link:
		return typeLink
	case n.dir:
		return typeDir
	}
	return typeFile
}

// view records what each operation has put at which path. With it, lowering decides without a system call whether a mount point can be made
// in the sandbox's own file systems, or would be made on the host.
type view struct {
	nodes map[string]node
	above map[string]bool // directories that have, or had, a node below them
}

// devNodes is room for the root, and for what a /dev has.
const devNodes = 20

// newView returns the view of an empty root, with room for so many operations.
func newView(ops int) view {
	v := view{make(map[string]node, ops+devNodes), map[string]bool{"/": true}}
	v.nodes["/"] = node{origin: private, dir: true, secure: true}
	return v
}

// set records that n is at dest.
func (v view) set(dest string, n node) {
	n.secure = n.origin == private && (dest == "/" || v.private(parent(dest)))
	v.nodes[dest] = n
	for dir := parent(dest); !v.above[dir]; dir = parent(dir) {
		v.above[dir] = true
	}
}

// parent returns the directory above an absolute, clean path.
func parent(dest string) string {
	if i := strings.LastIndexByte(dest, '/'); i > 0 {
		return dest[:i]
	}
	return "/"
}

// find returns the nearest node at or above dest, the path of that node, and the rest of dest below it, without a leading slash.
func (v view) find(dest string) (n node, at, rest string) {
	for at = dest; ; at = parent(at) {
		if n, ok := v.nodes[at]; ok {
			return n, at, strings.TrimPrefix(dest[len(at):], "/")
		}
	}
}

// cover records that n is mounted at dest and hides everything below it.
func (v view) cover(dest string, n node) {
	if v.above[dest] {
		below := strings.TrimSuffix(dest, "/") + "/"
		for p := range v.nodes {
			if p != dest && strings.HasPrefix(p, below) {
				delete(v.nodes, p)
			}
		}
	}
	v.set(dest, n)
}

// missing returns the directories above dest that must be made, outermost first. The nearest node must be private.
func (v view) missing(dest string) (dirs []string) {
	for dir := parent(dest); ; dir = parent(dir) {
		if _, ok := v.nodes[dir]; ok {
			return dirs
		}
		dirs = append([]string{dir}, dirs...)
	}
}

// top returns the mount point of the sandbox's own file system that dir lies in: the highest place above which something else begins.
func (v view) top(dir string) string {
	for dir != "/" {
		n, at, _ := v.find(parent(dir))
		if n.origin != private {
			break
		}
		dir = at
	}
	return dir
}

// private reports whether everything at and above dest is the sandbox's own. Then no other process can change a name on the way to it, and
// a path needs no walk.
func (v view) private(dest string) bool {
	n, _, _ := v.find(dest)
	return n.secure
}
