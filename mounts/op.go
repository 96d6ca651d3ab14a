package mounts

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Bind    Kind = "bind"    // show a host file or directory, with its submounts
	Tmpfs   Kind = "tmpfs"   // an empty file system in memory
	Proc    Kind = "proc"    // a fresh procfs, with what leaks or controls the host covered
	Dev     Kind = "dev"     // a minimal /dev: null zero full random urandom tty, pts, and the usual links
	Devpts  Kind = "devpts"  // pseudo-terminals of the sandbox's own
	Mqueue  Kind = "mqueue"  // POSIX message queues of the IPC namespace
	Dir     Kind = "dir"     // an empty directory
	Symlink Kind = "symlink" // a symbolic link with target Source
	File    Kind = "file"    // a file with content Data
	Remount Kind = "remount" // add Flags to the mount at Dest, submounts excepted
	Overlay Kind = "overlay" // Layers, the first at the bottom, with Upper and Work or without
	Mask    Kind = "mask"    // cover a file by /dev/null, a directory by an empty read-only tmpfs
	Rebind  Kind = "rebind"  // mount what is at Dest over itself, with Flags
	Data    Kind = "data"    // bind a file with content Data that has no other name; compat trees only
	Chmod   Kind = "chmod"   // change the mode of what is at Dest; compat trees only
)

// Flag is one mount flag, as a word.
type Flag string

// The flags.
const (
	ReadOnly Flag = "ro"
	NoSuid   Flag = "nosuid"
	NoDev    Flag = "nodev"
	NoExec   Flag = "noexec"
)

// Flags is a set of flags.
type Flags []Flag

// Has reports whether f is in the set.
func (s Flags) Has(f Flag) bool { return slices.Contains(s, f) }

// Op is one operation on the tree.
type Op struct {
	Kind   Kind   `json:"kind"`
	Source string `json:"source,omitempty"`
	Dest   string `json:"dest"`
	Flags  Flags  `json:"flags,omitempty"`
	// Optional leaves the operation out when Source does not exist, or when Dest would have to be made on the host.
	Optional bool `json:"optional,omitempty"`
	// Quiet says that nobody need be told when it was left out.
	Quiet bool `json:"quiet,omitempty"`
	// KeepLink makes a Source that is itself a symlink appear as that symlink.
	KeepLink bool `json:"keep_link,omitempty"`
	// NoFollow refuses a Source reached through a symlink that an unprivileged program could have planted.
	NoFollow bool `json:"no_follow,omitempty"`
	// Within lists directories; Source must lie in one of them once symlinks are resolved.
	Within []string `json:"within,omitempty"`
	// FollowDest puts a File or Bind where Dest leads when the host has a symlink there, as /etc/resolv.conf often is.
	FollowDest bool `json:"follow_dest,omitempty"`
	// Only says what Source must be: "socket", "directory", or empty for a file or directory.
	Only string `json:"only,omitempty"`
	// Mode is the permission bits of a tmpfs, directory or file; 0 means 0755, 0644 for a file.
	Mode uint32 `json:"mode,omitempty"`
	// Size in bytes and Inodes bound a tmpfs; 0 leaves the kernel's default of half the memory.
	Size   int64 `json:"size,omitempty"`
	Inodes int64 `json:"inodes,omitempty"`
	// Data is the content of a file.
	Data []byte `json:"data,omitempty"`
	// FD is an open descriptor. Of a bind, Source is its name, and what is bound must be the same directory or file. Of a File or Data in a
	// compat tree, the content is read from it while the tree is built. nil is none.
	FD *int `json:"fd,omitempty"`
	// Context is the SELinux context of a tmpfs.
	Context string `json:"context,omitempty"`
	// Layers, Upper and Work are those of an overlay. Without Upper and Work it is read-only, or writable in memory with Scratch.
	Layers  []string `json:"layers,omitempty"`
	Upper   string   `json:"upper,omitempty"`
	Work    string   `json:"work,omitempty"`
	Scratch bool     `json:"scratch,omitempty"`
	// Why is the wish behind the operation, for people.
	Why string `json:"why,omitempty"`
}

// String prints the operation on one line: "bind /usr ro nosuid nodev (optional)".
func (o Op) String() string {
	words := []string{string(o.Kind), o.Dest}
	switch {
	case o.Kind == Symlink:
		words = append(words, "->", o.Source)
	case o.Source != "" && o.Source != o.Dest:
		words = append(words, "<-", o.Source)
	}
	if o.Kind == Bind && !o.Flags.Has(ReadOnly) {
		words = append(words, "rw")
	}
	for _, f := range o.Flags {
		words = append(words, string(f))
	}
	if o.Size != 0 {
		words = append(words, "size="+size(o.Size))
	}
	if o.Inodes != 0 {
		words = append(words, fmt.Sprintf("inodes=%d", o.Inodes))
	}
	if o.Mode != 0 {
		words = append(words, fmt.Sprintf("mode=%04o", o.Mode))
	}
	if o.Kind == File || o.Kind == Data {
		words = append(words, fmt.Sprintf("%d bytes", len(o.Data)))
	}
	if o.FD != nil {
		words = append(words, fmt.Sprintf("fd=%d", *o.FD))
	}
	if o.Context != "" {
		words = append(words, "context="+o.Context)
	}
	words = append(words, o.overlayWords()...)
	for _, mark := range []struct {
		on   bool
		word string
	}{{o.Optional, "optional"}, {o.KeepLink, "keep-link"}, {o.NoFollow, "no-follow"}, {o.FollowDest, "follow-dest"}} {
		if mark.on {
			words = append(words, mark.word)
		}
	}
	if o.Only != "" {
		words = append(words, "only="+o.Only)
	}
	if len(o.Within) > 0 {
		words = append(words, "within="+strings.Join(o.Within, ":"))
	}
	return strings.Join(words, " ")
}

func (o Op) overlayWords() (words []string) {
	if len(o.Layers) > 0 {
		words = append(words, "layers="+strings.Join(o.Layers, ":"))
	}
	if o.Upper != "" {
		words = append(words, "upper="+o.Upper, "work="+o.Work)
	}
	if o.Scratch {
		words = append(words, "scratch")
	}
	return words
}

// size prints bytes in the largest unit that divides them.
func size(n int64) string {
	for _, unit := range []struct {
		n    int64
		name string
	}{{1 << 30, "G"}, {1 << 20, "M"}, {1 << 10, "K"}} {
		if n%unit.n == 0 {
			return fmt.Sprintf("%d%s", n/unit.n, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// Tree is a whole root.
type Tree struct {
	// Ops are carried out in order; a later one covers an earlier one at the same place.
	Ops []Op `json:"ops"`
	// Dir is a directory that must be there in the end, for the program to start in. Empty means none.
	Dir string `json:"dir,omitempty"`
	// Writable leaves the root tmpfs itself writable. The zero value makes it read-only once everything stands.
	Writable bool `json:"writable,omitempty"`
	// Compat builds the tree by bubblewrap's rules instead of this package's own: destinations may be relative, may lie under symlinks,
	// which are followed within the new root, and are made where they are missing, on the host too if that is where they lie. The
	// root stays writable. Modes are taken as they are, 0 included. The parents of a Dir, Tmpfs, File and Data get 0755 without the
	// bits for group and others that the operation's own mode lacks altogether, those of any other operation 0700.
	//
	// A Proc with Source binds the host's procfs instead of mounting one of its own. A Dev with Source binds that terminal as
	// console. An Overlay without Upper is in memory with Scratch, else read-only.
	Compat bool `json:"compat,omitempty"`
}
