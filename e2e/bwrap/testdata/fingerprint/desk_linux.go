package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// desk holds what a run gets and gives by descriptors.
type desk struct {
	files   map[int]*os.File
	here    []*os.File // ends that stay with the supervisor
	signals *os.File
	given   []*os.File // ends that only the sandbox may hold, closed here once it runs
	late    []*os.File
	owners  []int
	ttys    sync.WaitGroup
	screen  bytes.Buffer
	master  *os.File
}

func newDesk() *desk { return &desk{files: map[int]*os.File{}} }

func memory(content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("data", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := f.WriteString(content); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// open makes a list of descriptors of which the first is 0.
func (d *desk) open(s *spec) ([]*os.File, error) {
	if err := d.standard(s); err != nil {
		return nil, err
	}
	for fd, what := range s.Fds {
		f, err := d.kind(what)
		if err != nil {
			return nil, fmt.Errorf("descriptor %d (%s): %w", fd, what, err)
		}
		d.files[fd] = f
	}
	top := procFd
	if s.Signal > 0 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		d.signals, d.files[readyFd], top = r, w, readyFd
		d.given = append(d.given, w)
	}
	files := make([]*os.File, top+1)
	for fd, f := range d.files {
		files[fd] = f
	}
	return files, nil
}

func (d *desk) standard(s *spec) error {
	in, err := memory(s.Stdin)
	if err != nil {
		return err
	}
	out, err := memory("")
	if err != nil {
		return err
	}
	text, err := memory("")
	if err != nil {
		return err
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return err
	}
	d.files[0], d.files[1], d.files[2], d.files[procFd] = in, out, text, proc
	if s.Tty {
		return d.terminal()
	}
	return nil
}

// terminal puts a new terminal on 0 and 1 and notes what appears on it.
func (d *desk) terminal() error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	number, err := unix.IoctlGetUint32(master, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	d.master = os.NewFile(uintptr(master), "master")
	d.files[0], d.files[1] = slave, slave
	d.given = append(d.given, slave)
	d.ttys.Go(func() { _, _ = io.Copy(&d.screen, d.master) })
	return nil
}

// kind opens one descriptor: data:CONTENT, base64:CONTENT, pipe:CONTENT, late (a pipe to which a byte comes after a while), closing (a
// pipe that is closed after a while), out, dir:PATH, path:PATH (O_PATH), file:PATH, wo:PATH, rw:PATH, ns:WHICH, ns2:WHICH.
func (d *desk) kind(what string) (*os.File, error) {
	kind, rest, _ := strings.Cut(what, ":")
	switch kind {
	case "data":
		return memory(rest)
	case "base64":
		raw, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return nil, err
		}
		return memory(string(raw))
	case "out":
		return memory("")
	case "pipe", "late", "closing":
		return d.pipe(kind, rest)
	case "path":
		return openFlags(rest, unix.O_PATH|unix.O_NOFOLLOW)
	case "dir", "file":
		return openFlags(rest, unix.O_RDONLY)
	case "wo":
		return openFlags(rest, unix.O_WRONLY)
	case "rw":
		return openFlags(rest, unix.O_RDWR)
	case "ns", "ns2":
		return d.space(kind, rest)
	}
	return nil, fmt.Errorf("no such kind")
}

func openFlags(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), path), err
}

func (d *desk) pipe(kind, content string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	d.given = append(d.given, r)
	if kind == "pipe" {
		d.here = append(d.here, r)
		if _, err := w.WriteString(content); err != nil {
			return nil, err
		}
		return r, w.Close()
	}
	d.late = append(d.late, w)
	time.AfterFunc(150*time.Millisecond, func() {
		if kind == "late" {
			_, _ = w.WriteString("x")
		}
		w.Close()
	})
	return r, nil
}

// started closes what only the sandbox shall hold from now on.
func (d *desk) started() {
	for _, f := range d.given {
		f.Close()
	}
}

// sent lets hold end, if it is to end by itself.
func (d *desk) sent() { d.signals.Close() }

// ready waits until hold says that it runs.
func (d *desk) ready() bool {
	var b [1]byte
	n, _ := d.signals.Read(b[:])
	return n == 1
}

// read returns what was written to a descriptor.
func (d *desk) read(fd int) string {
	if d.master != nil && fd == 1 {
		d.ttys.Wait()
		return d.screen.String()
	}
	f := d.files[fd]
	if f == nil {
		return "not open"
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	return orErr(string(data), err)
}

func (d *desk) close() {
	for _, pid := range d.owners {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	for _, f := range d.files {
		f.Close()
	}
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && err != unix.EINTR {
			return
		}
	}
}
