package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// file looks at one that counts as it is, and returns its content. what is not a file of a bounded size is compared by what stat(2) says.
func (l *look) file(dir int, name, at, why string, mode bool) []byte {
	s, data, st := l.read(dir, name, at, maxBytes)
	if s.value == "" {
		return nil
	}
	if mode {
		s.value += fmt.Sprintf(" %o", st.Mode&0o7777)
	}
	s.why = why
	l.items[item{at, ""}] = s
	return data
}

// read returns the state of a file, and its content if it is regular and has at most so many bytes. A state without a value is that nothing is there.
func (l *look) read(dir int, name, at string, most int64) (s state, data []byte, st unix.Stat_t) {
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			l.absent[at] = true
		} else {
			s = state{value: "not looked at: " + err.Error(), words: "cannot be looked at: " + err.Error()}
			l.save(at, saved{lost: "it could not be looked at before"})
		}
		return s, nil, st
	}
	return l.content(dir, name, at, most, st)
}

// content is read for what is there.
func (l *look) content(dir int, name, at string, most int64, st unix.Stat_t) (state, []byte, unix.Stat_t) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return l.regular(dir, name, at, most, st)
	case unix.S_IFLNK:
		var buf [unix.PathMax]byte
		n, err := unix.Readlinkat(dir, name, buf[:])
		if err != nil {
			n = 0
		}
		l.save(at, saved{mode: st.Mode, data: bytes.Clone(buf[:n])})
		if to, ok := l.below(path.Dir(at), string(buf[:n])); ok && len(l.links) < maxLinks {
			l.links = append(l.links, lead{to, l.current.Why})
		}
		return state{value: "symlink to " + string(buf[:n]), words: "is a symlink now"}, nil, st
	case unix.S_IFDIR:
		l.save(at, saved{mode: st.Mode, lost: "it was a directory, and nsrun keeps no copy of it"})
		return state{value: "directory " + stamp(st), words: "is a directory that is not looked into"}, nil, st
	}
	l.save(at, saved{lost: "it was no file before"})
	return state{value: fmt.Sprint("special ", st.Dev, st.Ino, st.Mode), words: "is " + kind(st.Mode) + " now"}, nil, st
}

// regular is read for a regular file.
func (l *look) regular(dir int, name, at string, most int64, st unix.Stat_t) (state, []byte, unix.Stat_t) {
	odd := func(words string) (state, []byte, unix.Stat_t) {
		l.save(at, saved{mode: st.Mode, lost: "no copy was kept: it " + words})
		return state{value: words + " " + stamp(st), words: words}, nil, st
	}
	if st.Size > most {
		return odd(fmt.Sprintf("has more than %d bytes, and is not compared", most))
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return odd("cannot be read: " + err.Error())
	}
	defer unix.Close(fd)
	data := make([]byte, st.Size+1)
	n := 0
	for int64(n) < st.Size+1 {
		got, err := unix.Read(fd, data[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return odd("cannot be read: " + err.Error())
		}
		if n += got; got == 0 || int64(n) == st.Size {
			break
		}
	}
	data = data[:n]
	sum := sha256.Sum256(data)
	value := "file " + hex.EncodeToString(sum[:])
	if st.Mode&0o111 != 0 {
		value += " executable"
	}
	if l.keep {
		l.save(at, saved{mode: st.Mode, uid: st.Uid, gid: st.Gid, data: data})
	}
	return state{value: value}, data, st
}

func (l *look) save(at string, s saved) {
	if l.keep {
		l.saved[at] = s
	}
}

// stamp is what changes when a program changes something: nothing but the kernel sets st_ctime.
func stamp(st unix.Stat_t) string {
	return fmt.Sprint(st.Dev, st.Ino, st.Mode, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}
