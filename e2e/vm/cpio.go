package vm

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Entry is one file of a Tree.
type Entry struct {
	Mode         fs.FileMode
	Data         []byte // contents, or the target of a symbolic link
	Major, Minor int    // of a device
}

// Tree is a root in memory: clean absolute paths, without that of the root itself. All belongs to root.
type Tree map[string]Entry

// File adds a regular file.
func (t Tree) File(name string, mode fs.FileMode, data []byte) {
	t[path.Clean(name)] = Entry{Mode: mode, Data: data}
}

// Dir adds a directory.
func (t Tree) Dir(name string, mode fs.FileMode) {
	t[path.Clean(name)] = Entry{Mode: mode | fs.ModeDir}
}

// Link adds a symbolic link.
func (t Tree) Link(name, target string) {
	t[path.Clean(name)] = Entry{Mode: 0o777 | fs.ModeSymlink, Data: []byte(target)}
}

// WriteTo writes the tree in the format that the kernel takes for an initramfs: cpio's "newc", as Documentation/driver-api/early-userspace/
// buffer-format.rst has it. Missing parents are made. The same tree gives the same bytes.
func (t Tree) WriteTo(w io.Writer) (int64, error) {
	all := maps.Clone(t)
	for name := range t {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if _, found := all[dir]; !found {
				all.Dir(dir, 0o755)
			}
		}
	}
	out := &padder{w: w}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		out.entry(i+1, name[1:], all[name])
	}
	out.entry(0, "TRAILER!!!", Entry{})
	return out.n, out.err
}

// padder writes the archive and remembers the first error.
type padder struct {
	w   io.Writer
	n   int64
	err error
}

func (p *padder) put(data []byte) {
	if p.err != nil {
		return
	}
	n, err := p.w.Write(data)
	p.n, p.err = p.n+int64(n), err
}

func (p *padder) pad() { p.put(make([]byte, -p.n&3)) }

func (p *padder) entry(ino int, name string, e Entry) {
	links := 1
	if e.Mode.IsDir() {
		links = 2
	}
	p.put(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		ino, unixMode(e.Mode), 0, 0, links, 0, len(e.Data), 0, 0, e.Major, e.Minor, len(name)+1, 0, name))
	p.pad()
	p.put(e.Data)
	p.pad()
}

// unixMode is a mode as inode(7) has it.
func unixMode(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for _, b := range []struct {
		here fs.FileMode
		unix uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if mode&b.here != 0 {
			bits |= b.unix
		}
	}
	switch {
	case mode.IsDir():
		return bits | 0o040000
	case mode&fs.ModeSymlink != 0:
		return bits | 0o120000
	case mode&fs.ModeCharDevice != 0:
		return bits | 0o020000
	case mode.IsRegular():
		return bits | 0o100000
	}
	panic("vm: a file of mode " + mode.String() + " cannot be in a tree")
}

// Add adds all of another tree, over what is there.
func (t Tree) Add(other Tree) { maps.Copy(t, other) }

// clean is an archive's name as a path of a tree.
func clean(name string) string { return path.Clean("/" + strings.TrimPrefix(name, ".")) }
