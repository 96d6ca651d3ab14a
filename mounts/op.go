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
	Devpts  Kind = "devpts"  // pseudo-terminals of the sandbox alone
	Mqueue  Kind = "mqueue"  // the POSIX message queues of the IPC namespace
	Dir     Kind = "dir"     // an empty directory
	Symlink Kind = "symlink" // a symbolic link with target Source
	File    Kind = "file"    // a file with content Data
	Remount Kind = "remount" // add Flags to the mount at Dest, but not to its submounts
	Overlay Kind = "overlay" // Layers as one directory, the bottom one first; see Upper, Work and Scratch
	Mask    Kind = "mask"    // cover a file by /dev/null, a directory by an empty read-only tmpfs
	Rebind  Kind = "rebind"  // mount Dest over itself with Flags
	Data    Kind = "data"    // bind a file with content Data that has no other name; compat trees only
	Chmod   Kind = "chmod"   // change the mode of Dest; compat trees only
)

// Flag is one mount flag, as mount(8) spells it.
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
	// Optional leaves the operation out if Source does not exist, or if Dest would have to be made on the host.
	Optional bool `json:"optional,omitempty"`
	// Quiet means that no note is needed if the operation is left out.
	Quiet bool `json:"quiet,omitempty"`
	// KeepLink makes a symlink in the sandbox if Source is itself a symlink, instead of following it. A Mask that has it, and is Optional, is left
	// out if Dest is reached through a symlink: what that leads to is covered at its own place.
	KeepLink bool `json:"keep_link,omitempty"`
	// NoFollow refuses a Source that is reached through a symlink which an unprivileged program could have planted.
	NoFollow bool `json:"no_follow,omitempty"`
	// Within lists directories. Source must lie in one of them after symlinks are resolved.
	Within []string `json:"within,omitempty"`
	// FollowDest puts a File or Bind at the target if the host has a symlink at Dest, as /etc/resolv.conf often is.
	FollowDest bool `json:"follow_dest,omitempty"`
	// Only is the required type of Source: "socket", "directory", "device", or empty for a file or directory.
	Only string `json:"only,omitempty"`
	// Mode has the permission bits of a tmpfs, directory or file. 0 means 0755, or 0644 for a file.
	Mode uint32 `json:"mode,omitempty"`
	// Size (in bytes) and Inodes limit a tmpfs. 0 leaves the kernel's default, half of the memory.
	Size   int64 `json:"size,omitempty"`
	Inodes int64 `json:"inodes,omitempty"`
	// Shared makes a tmpfs a directory of the file system that it lies in, mounted on itself: what is written to it counts to that one's
	// limits. If it lies in none of the sandbox's own, or covers something, it is a tmpfs with its own limits, or else with the tree's.
	// Compat trees have no shared ones.
	Shared bool `json:"shared,omitempty"`
	// Data is the content of a file.
	Data []byte `json:"data,omitempty"`
	// FD is an open descriptor; nil is none. For a bind, Source is the descriptor's path, and the bind fails if another file is there by
	// then. For a File or Data in a compat tree, the content is read from FD while the tree is built.
	FD *int `json:"fd,omitempty"`
	// Context is the SELinux context of a tmpfs.
	Context string `json:"context,omitempty"`
	// Layers, Upper and Work are directories of an overlay. Without Upper and Work it is read-only or, with Scratch, writable in memory.
	Layers  []string `json:"layers,omitempty"`
	Upper   string   `json:"upper,omitempty"`
	Work    string   `json:"work,omitempty"`
	Scratch bool     `json:"scratch,omitempty"`
	// Why is the request that led to the operation, for messages.
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
	}{{o.Shared, "shared"}, {o.Optional, "optional"}, {o.KeepLink, "keep-link"}, {o.NoFollow, "no-follow"}, {o.FollowDest, "follow-dest"}} {
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

// overlayWords returns the words of an overlay for String.
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

// size returns a number of bytes in the largest unit that divides it.
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

// Tree describes a whole root file system.
type Tree struct {
	// Ops are carried out in order. A later operation covers an earlier one at the same place.
	Ops []Op `json:"ops"`
	// Dir is a directory that must exist in the finished root, for the program to start in. Empty means none.
	Dir string `json:"dir,omitempty"`
	// Size (in bytes) and Inodes limit the root's tmpfs, with what is shared. 0 leaves the kernel's default.
	Size   int64 `json:"size,omitempty"`
	Inodes int64 `json:"inodes,omitempty"`
	// Writable leaves the root tmpfs writable. By default it becomes read-only after the last operation.
	Writable bool `json:"writable,omitempty"`
	// Compat builds the tree by bubblewrap's rules instead of this package's own. Destinations may be relative. They may lie below
	// symlinks, which are followed within the new root. Missing directories are made, on the host too if the destination lies there. The
	// root stays writable. Modes are used as they are, 0 included. The parents of a Dir, Tmpfs, File and Data get mode 0755, without the
	// bits for group or others if the operation's own mode has none of them. The parents of any other operation get mode 0700.
	//
	// A Proc with Source binds the host's procfs instead of mounting a new one. A Dev with Source binds that terminal as console. An
	// Overlay without Upper is in memory with Scratch, and otherwise read-only.
	Compat bool `json:"compat,omitempty"`
}

// Have lists the kernel interfaces that may be used.
type Have struct {
	NewAPI  bool // open_tree, move_mount, fsopen, mount_setattr: Linux 5.12
	Openat2 bool // Linux 5.6
}

// Resolved is what lowering found on this host for one operation.
type Resolved struct {
	Op      int    // index into Tree.Ops
	Dest    string // where it was mounted or made; differs from Op.Dest if a symlink was followed
	Source  string // of a bind: the path on the host, free of symlinks
	Missing bool   // left out, because it is optional and its source or destination does not exist
	File    bool   // Dest is not a directory
	Link    bool   // Dest is a symlink
	Target  string // of that symlink
	Covered bool   // in a compat tree: a later operation covers Dest
}
