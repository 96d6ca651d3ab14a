package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notification is a system call that waits for a seccomp listener: struct seccomp_notif of seccomp_unotify(2).
type Notification struct {
	ID    uint64
	PID   uint32 // of the thread, as the listener's holder sees it
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

const (
	notifyReceive = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifySend    = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	notifyGoOn    = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE, Linux 5.5
	notifyFlags   = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
	notifySync    = 1          // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
)

// ReceiveNotification waits for the next call. ENOENT says that its process has ended meanwhile.
func ReceiveNotification(listener int) (Notification, error) {
	var n Notification
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(listener), notifyReceive, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return n, errno
	}
	return n, nil
}

// LetGoOn lets a call go on: it is carried out as if there were no listener.
func LetGoOn(listener int, id uint64) error {
	return answer(listener, response{ID: id, Flags: notifyGoOn})
}

// FailCall fails a call with an errno; it is not carried out.
func FailCall(listener int, id uint64, errno uint16) error {
	return answer(listener, response{ID: id, Error: -int32(errno)})
}

func answer(listener int, r response) error {
	if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(listener), notifySend, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return errno
	}
	return nil
}

// SwitchAtOnce has a listener's holder and the processes that ask it woken on the processor of the one that wakes them, which waits then itself.
// SECCOMP_IOCTL_NOTIF_SET_FLAGS, Linux 6.6.
func SwitchAtOnce(listener int) error {
	if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(listener), notifyFlags, notifySync); errno != 0 {
		return errno
	}
	return nil
}
