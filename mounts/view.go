package mounts

import "strings"

// origin is what stands at a path of the new root while it is being built.
type origin int

const (
	private origin = iota // a directory or file in a file system that only this sandbox sees
	host                  // the host's, through a bind
	kernel                // procfs or devpts: nothing can be made there
	link                  // a symlink that an operation made
	layered               // an overlay
)

// node is what an operation put at a path.
type node struct {
	origin origin
	source string   // host path, for host and kernel
	target string   // of a link
	layers []string // of an overlay, topmost first
	dir    bool
	op     int  // which operation put it there, from 1, in compat trees
	secure bool // it and all above it are the sandbox's own
}

// File types as st_mode has them.
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

// view knows what each operation has put where. It is what lets lowering tell, without asking the kernel, whether a mount point
// can be made in the sandbox's own file systems or would be made on the host.
type view struct {
	nodes map[string]node
	above map[string]bool // directories below which there is, or was, a node
}

func newView() view {
	return view{map[string]node{"/": {origin: private, dir: true, secure: true}}, map[string]bool{"/": true}}
}

// set records that n stands at dest.
func (v view) set(dest string, n node) {
	n.secure = n.origin == private && (dest == "/" || v.private(parent(dest)))
	v.nodes[dest] = n
	for dir := parent(dest); !v.above[dir]; dir = parent(dir) {
		v.above[dir] = true
	}
}

// parent is the directory above an absolute, clean path.
func parent(dest string) string {
	if i := strings.LastIndexByte(dest, '/'); i > 0 {
		return dest[:i]
	}
	return "/"
}

// find returns the nearest node at or above dest, the path it stands at, and the rest of dest below it, without leading slash.
func (v view) find(dest string) (n node, at, rest string) {
	for at = dest; ; at = parent(at) {
		if n, ok := v.nodes[at]; ok {
			return n, at, strings.TrimPrefix(dest[len(at):], "/")
		}
	}
}

// cover records that n now stands at dest, hiding whatever was below.
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

// missing lists the directories above dest that have to be made, outermost first. Precondition: the nearest node is ours.
func (v view) missing(dest string) (dirs []string) {
	for dir := parent(dest); ; dir = parent(dir) {
		if _, ok := v.nodes[dir]; ok {
			return dirs
		}
		dirs = append([]string{dir}, dirs...)
	}
}

// private reports whether nothing at or above dest is anybody else's: no name on the way to it can be changed by others.
func (v view) private(dest string) bool {
	n, _, _ := v.find(dest)
	return n.secure
}
