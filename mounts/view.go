package mounts

import (
	"path"
	"strings"
)

// place is what stands at a path of the new root while it is being built.
type place int

const (
	ours   place = iota // a directory or file in a file system that only this sandbox sees
	host                // the host's, through a bind
	kernel              // procfs or devpts: nothing can be made there
	link                // a symlink that an operation made
)

// node is what an operation put at a path.
type node struct {
	place  place
	source string // host path, for host and kernel
	dir    bool
}

// view knows what each operation has put where. It is what lets lowering tell, without asking the kernel, whether a mount point
// can be made in the sandbox's own file systems or would be made on the host.
type view map[string]node

func newView() view { return view{"/": {place: ours, dir: true}} }

// find returns the nearest node at or above dest, the path it stands at, and the rest of dest below it, without leading slash.
func (v view) find(dest string) (n node, at, rest string) {
	for at = dest; ; at = path.Dir(at) {
		if n, ok := v[at]; ok {
			return n, at, strings.TrimPrefix(dest[len(at):], "/")
		}
	}
}

// cover records that n now stands at dest, hiding whatever was below.
func (v view) cover(dest string, n node) {
	if old, ok := v[dest]; ok && old.dir {
		below := dest + "/"
		for p := range v {
			if strings.HasPrefix(p, below) {
				delete(v, p)
			}
		}
	}
	v[dest] = n
}

// missing lists the directories above dest that have to be made, outermost first. Precondition: the nearest node is ours.
func (v view) missing(dest string) (dirs []string) {
	for dir := path.Dir(dest); ; dir = path.Dir(dir) {
		if _, ok := v[dir]; ok {
			return dirs
		}
		dirs = append([]string{dir}, dirs...)
	}
}
