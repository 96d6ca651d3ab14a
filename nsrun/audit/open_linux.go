package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// Log is an open log, for one run. It has an open file of its own, since locks belong to that: two runs of one process are two Logs.
type Log struct {
	file *os.File
	path string
	id   string // of its run, once that has started
}

// Open opens a log to append to, and makes it if it is not there, in a directory that is. It has mode 0600 from its first byte. What is
// there already has to be a log with that mode and no other name, and of the caller's or root's: else rows would go where somebody else
// wants them. The name itself may not be a symlink, nor one on the way to it that a sandboxed program could have planted. An error is a [*fault.Error].
func Open(name string) (*Log, error) {
	fail := func(err error, hint string) (*Log, error) { return nil, &fault.Error{Path: name, Err: err, Hint: hint} }
	abs, err := filepath.Abs(name)
	if err != nil {
		return fail(err, "give an absolute path")
	}
	dir, at, err := mounts.OpenDir(filepath.Dir(abs))
	var planted *fault.Error
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fail(errors.New("its directory does not exist"), "make it: mkdir -p "+filepath.Dir(name))
	case errors.As(err, &planted):
		return fail(planted.Err, planted.Hint)
	case err != nil:
		return fail(err, "")
	}
	defer dir.Close()
	real := filepath.Join(at, filepath.Base(abs))
	fd, err := openLog(int(dir.Fd()), filepath.Base(abs))
	if err != nil {
		return fail(err, openHint(err))
	}
	log := &Log{file: os.NewFile(uintptr(fd), real), path: real}
	if hint, err := log.check(); err != nil {
		log.Close()
		return fail(err, hint)
	}
	return log, nil
}

// openLog opens the file of that name in a directory, or makes it. O_NONBLOCK keeps a FIFO from holding us up.
func openLog(dir int, name string) (fd int, err error) {
	const flags = unix.O_RDWR | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	for range 10 { // it may come and go meanwhile
		fd, err = ignoring(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
		if !errors.Is(err, unix.ENOENT) {
			return fd, err
		}
		fd, err = ignoring(func() (int, error) { return unix.Openat(dir, name, flags|unix.O_CREAT|unix.O_EXCL, 0o600) })
		if err == nil {
			if err = unix.Fchmod(fd, 0o600); err != nil { // an umask may have left less
				unix.Close(fd)
			}
			return fd, err
		}
		if !errors.Is(err, unix.EEXIST) {
			return fd, err
		}
	}
	return fd, err
}

// ignoring tries again when a signal has come between.
func ignoring[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

func openHint(err error) string {
	switch {
	case errors.Is(err, unix.ELOOP):
		return "it is a symlink, and none is followed; name the file itself"
	case errors.Is(err, unix.EISDIR):
		return "name a file in it"
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return "it is not a regular file; name another one"
	case errors.Is(err, unix.EROFS):
		return "the file system is read-only; name a file on another one"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "the caller has to be able to read and append to it; give it to this user, or name another file"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fullHint
	}
	return ""
}

const fullHint = "make room there, or name a file on another file system"

// check looks at what has been opened, not at what its name meant before.
func (l *Log) check() (hint string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd(), &st); err != nil {
		return "", err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "name another one", errors.New("it is not a regular file")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return "name a file of your own", fmt.Errorf("it belongs to user %d", st.Uid)
	case st.Nlink > 1:
		return "remove the others, or name another file", fmt.Errorf("it has %d names (hard links)", st.Nlink)
	case st.Nlink == 0:
		return "try again", errors.New("it was removed meanwhile")
	}
	begin := make([]byte, 2*len(magic))
	n, err := l.file.ReadAt(begin, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	if !isLog(string(begin[:n])) {
		return "name a new file, or an older log", errors.New("it is not an audit log of this version, and nothing is appended to it")
	}
	if st.Mode&0o7177 != 0 {
		return "chmod 600 " + l.path, fmt.Errorf("others can use it: its mode is %04o", st.Mode&0o7777)
	}
	return "", nil
}

// isLog reports whether a file that begins so is one of ours: even of the first row a crash may have left only a few letters.
func isLog(begin string) bool {
	first, next, ended := strings.Cut(begin, "\n")
	if len(first) >= len(magic) {
		return strings.HasPrefix(first, magic)
	}
	most := min(len(next), len(magic))
	return strings.HasPrefix(magic, first) && (!ended || first != "" && next != "" && next[:most] == magic[:most])
}

func (l *Log) fd() int { return int(l.file.Fd()) }

// Path is the file's real path: no sandbox may be able to write it, or see it.
func (l *Log) Path() string { return l.path }

// Info tells of the file that is open.
func (l *Log) Info() (os.FileInfo, error) { return l.file.Stat() }

// Same reports whether two logs are the same file.
func (l *Log) Same(other *Log) bool {
	a, err1 := l.Info()
	b, err2 := other.Info()
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// Close closes the log. A run that has not been ended is recorded as aborted by the next start.
func (l *Log) Close() error { return l.file.Close() }
