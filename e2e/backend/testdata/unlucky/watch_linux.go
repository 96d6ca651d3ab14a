package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// look is a system call that asks about a file, whose first argument is a descriptor or a path, or one that talks to the sandbox or waits for it.
type look struct {
	name string
	nr   int
	path int // the argument with the path; -1 if there is a descriptor alone, or nothing
}

// nothing says that a call is about no file.
const nothing = -2

// install puts a filter on this thread that asks the process with its descriptor about each look.
func install() (int, error) {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number: its offset is 0
	for i, l := range looks {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(l.nr), Jt: uint8(len(looks) - i)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, errno
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, notifFlags, syncWakeUp) // faster, from Linux 6.6
	return int(fd), nil
}

// notification is struct seccomp_notif, and answer struct seccomp_notif_resp: seccomp_unotify(2).
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

const (
	notifReceive = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend    = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	notifFlags   = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
	goOn         = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	syncWakeUp   = 1          // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
)

// watcher answers for the filter.
type watcher struct {
	listener, pid int
	mark, look    string
	errno         unix.Errno

	mu    sync.Mutex
	noted []string
	count map[string]int
	begun bool // MARK has been looked at
}

// watch answers until nothing is left that has the filter.
func (w *watcher) watch() error {
	for {
		fds := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			if fds[0].Revents&unix.POLLHUP != 0 {
				return nil
			}
			continue
		}
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.listener), notifReceive, uintptr(unsafe.Pointer(&n)))
		if errno == unix.ENOENT || errno == unix.EINTR { // the process has ended, or was interrupted
			continue
		}
		if errno != 0 {
			return errno
		}
		a := answer{id: n.id, flags: goOn}
		if w.fails(&n) {
			a.flags, a.err = 0, -int32(w.errno)
		}
		for errno = unix.EINTR; errno == unix.EINTR; { // Go interrupts its own threads; without an answer the process would wait for ever
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(w.listener), notifSend, uintptr(unsafe.Pointer(&a)))
		}
		if errno != 0 && errno != unix.ENOENT {
			return errno
		}
	}
}

// fails notes a look, and reports whether it is the one that fails.
func (w *watcher) fails(n *notification) bool {
	own := exists(fmt.Sprintf("/proc/%d/task/%d", w.pid, n.pid))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !own {
		w.begun = w.begun || w.object(n) == w.mark
		return false
	}
	object := w.object(n)
	if !strings.HasPrefix(object, "/") || strings.HasPrefix(object, "/memfd:") { // a pipe or the like
		return false
	}
	name := find(n.nr).name + " " + strings.ReplaceAll(object, fmt.Sprintf("/proc/%d", w.pid), "/proc/self")
	w.count[name]++
	name = fmt.Sprintf("%s %d", name, w.count[name])
	if w.begun {
		name = "late " + name
	}
	w.noted = append(w.noted, name)
	return name == w.look
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func find(nr int32) look {
	for _, l := range looks {
		if l.nr == int(nr) {
			return l
		}
	}
	return look{}
}

// object is what a look is about.
func (w *watcher) object(n *notification) string {
	l := find(n.nr)
	if l.path == nothing {
		return "/"
	}
	name := ""
	if l.path >= 0 {
		name = text(n.pid, n.args[l.path])
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	dir, link := int32(n.args[0]), "cwd"
	if l.path == 0 {
		dir = unix.AT_FDCWD
	}
	if dir != unix.AT_FDCWD {
		link = fmt.Sprintf("fd/%d", dir)
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", n.pid, link))
	if err != nil {
		return ""
	}
	return path.Join(at, name)
}

// text reads a string of another process.
func text(pid uint32, at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, unix.PathMax)
	n, _ := f.ReadAt(buf[:min(len(buf), 4096-int(at%4096))], int64(at))
	if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
		return string(buf[:end])
	}
	more, _ := f.ReadAt(buf[n:], int64(at)+int64(n))
	text, _, _ := strings.Cut(string(buf[:n+more]), "\x00")
	return text
}

// save writes the looks down.
func (w *watcher) save(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return os.WriteFile(name, []byte(strings.Join(append(w.noted, ""), "\n")), 0o644)
}

// everywhere are the looks that each architecture has.
var everywhere = []look{{"openat", unix.SYS_OPENAT, 1}, {"openat2", unix.SYS_OPENAT2, 1}, {"fstat", unix.SYS_FSTAT, -1}, {"statx", unix.SYS_STATX, 1},
	{"readlinkat", unix.SYS_READLINKAT, 1}, {"statfs", unix.SYS_STATFS, 0}, {"fstatfs", unix.SYS_FSTATFS, -1},
	{"faccessat", unix.SYS_FACCESSAT, 1}, {"faccessat2", unix.SYS_FACCESSAT2, 1}, {"getdents64", unix.SYS_GETDENTS64, -1}, {"read", unix.SYS_READ, -1},
	{"sendto", unix.SYS_SENDTO, nothing}, {"recvmsg", unix.SYS_RECVMSG, nothing}, {"ppoll", unix.SYS_PPOLL, nothing}, {"wait4", unix.SYS_WAIT4, nothing}}
