package audit

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Locks are on bytes far behind the end of the file, where no row ever is: they are open file description locks (fcntl(2), since Linux
// 3.15), which belong to the open file and go with its last descriptor, however its process ends.
const (
	appendByte = 1 << 62        // is held while rows are appended
	firstSlot  = appendByte + 1 // and those behind it, each for as long as one run is open
)

// slots is how many there are: more than runs, since one that was told as aborted by mistake keeps its own.
const slots = 2 * maxOpen

// lockTimeout is how long an appender waits for the others.
const lockTimeout = 5 * time.Second

var errBusy = errors.New("another process has kept the log locked for 5s")

const busyHint = "see which one has it open: fuser -v, or lslocks; it may be stopped, or the disk slow"

func lockOf(kind int16, at int64) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: 0, Start: at, Len: 1}
}

// lock takes the lock on appending. The kernel's own waiting has no bound, so it is asked again and again.
func (l *Log) lock(kind int16) error {
	pause, until := 50*time.Microsecond, time.Now().Add(lockTimeout)
	for {
		err := unix.FcntlFlock(uintptr(l.fd()), unix.F_OFD_SETLK, lockOf(kind, appendByte))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(until):
			return errBusy
		}
		time.Sleep(pause)
		pause = min(2*pause, 5*time.Millisecond)
	}
}

func (l *Log) unlock() {
	_ = unix.FcntlFlock(uintptr(l.fd()), unix.F_OFD_SETLK, lockOf(unix.F_UNLCK, appendByte))
}

// takeSlot locks a slot for a run of ours, and says whether that was to be had.
func (l *Log) takeSlot(slot int) (bool, error) {
	err := unix.FcntlFlock(uintptr(l.fd()), unix.F_OFD_SETLK, lockOf(unix.F_WRLCK, firstSlot+int64(slot)))
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// alive reports whether somebody holds a slot.
func (l *Log) alive(slot int) (bool, error) {
	if slot < 0 || slot >= slots { // somebody has changed the log
		return false, nil
	}
	lock := lockOf(unix.F_WRLCK, firstSlot+int64(slot))
	if err := unix.FcntlFlock(uintptr(l.fd()), unix.F_OFD_GETLK, lock); err != nil {
		return false, err
	}
	return lock.Type != unix.F_UNLCK, nil
}
