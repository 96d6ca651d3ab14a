package denial

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// local are the file systems where a look is short, and has no effect. On others, such as FUSE, NFS and autofs, nothing is looked up.
var local = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "tmpfs", "ramfs", "rootfs", "devtmpfs", "overlay",
	"squashfs", "erofs", "iso9660", "vfat", "exfat", "ntfs3", "jfs", "reiserfs", "ubifs"}

// errElsewhere says that a path leads to where nothing is looked up.
var errElsewhere = errors.New("it is on a file system that is not looked at")

// host is the host's tree, as its mounts were at the start.
type host struct {
	mounts []mounts.Mount
	fds    map[string]int
}

func newHost() (*host, error) {
	data, err := sys.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	all, err := mounts.ParseMountinfo(data)
	return &host{all, map[string]int{}}, err
}

func (h *host) close() {
	for _, fd := range h.fds {
		unix.Close(fd)
	}
}

// place returns the mount that a path is in. All on the way to it must be local.
func (h *host) place(name string) (at string, err error) {
	at = "/"
	for _, m := range h.mounts { // a later one covers an earlier one
		if policy.Inside(name, m.Point) {
			if !slices.Contains(local, m.FSType) {
				return "", errElsewhere
			}
			if len(m.Point) >= len(at) {
				at = m.Point
			}
		}
	}
	return at, nil
}

const maxLinks = 40 // as the kernel follows: path_resolution(7)

// open opens what a path leads to, for looking. It goes from one mount to another only by name, so that it enters none that is not local.
func (h *host) open(name string) (int, error) { return h.openAs(name, 0) }

// openAs is open with O_NOFOLLOW in flags or not.
func (h *host) openAs(name string, flags uint64) (int, error) {
	for range maxLinks {
		name = path.Clean(name)
		at, err := h.place(name)
		if err != nil {
			return -1, err
		}
		base, ok := h.fds[at]
		if !ok {
			if base, err = unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
				return -1, err
			}
			h.fds[at] = base
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(name, at), "/")
		if rest == "" {
			return unix.FcntlInt(uintptr(base), unix.F_DUPFD_CLOEXEC, 0)
		}
		fd, err := unix.Openat2(base, rest, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS})
		if !errors.Is(err, unix.EXDEV) {
			return fd, err
		}
		if name, err = firstLink(base, at, rest); err != nil {
			return -1, err
		}
	}
	return -1, unix.ELOOP
}

// firstLink replaces the first link of a path below a mount by what it leads to.
func firstLink(base int, at, rest string) (string, error) {
	names := strings.Split(rest, "/")
	for i := range names {
		so := strings.Join(names[:i+1], "/")
		fd, err := unix.Openat2(base, so, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return "", errElsewhere // a mount that is newer than the list
		}
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", buf)
		unix.Close(fd)
		if err != nil { // it is none
			continue
		}
		target := string(buf[:n])
		if !path.IsAbs(target) {
			target = path.Join(at, path.Dir(so), target)
		}
		return path.Join(append([]string{target}, names[i+1:]...)...), nil
	}
	return "", errElsewhere
}

// answers reports whether an error of openat2(2) is the path's: that it leads nowhere, or may not be followed. Others, such as a lack of descriptors,
// say nothing about the path.
func answers(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG}, func(one error) bool { return errors.Is(err, one) })
}

// reached is the path of what is open.
func reached(fd int) string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || !path.IsAbs(name) || strings.HasSuffix(name, " (deleted)") {
		return ""
	}
	return name
}

// public reports whether everybody may read what is open.
func public(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&0o004 != 0
}

// hasCapabilities reports whether a file gives capabilities to who executes it: capabilities(7).
func hasCapabilities(fd int) bool {
	n, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(fd), "security.capability", nil)
	return err == nil && n > 0
}
