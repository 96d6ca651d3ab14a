package audit

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Reader is a log as it was when it was opened.
type Reader struct {
	io.Reader
	file *os.File
}

// Read opens a log for [Verify] and [Runs]: all rows that are in it, and no half of one that is being written. An error is a [*fault.Error].
func Read(name string) (*Reader, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, failed(name, errors.Unwrap(err), openHint(err))
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; name a log")
	}
	log := &Log{file: file, path: name}
	if err == nil {
		if err = log.lock(unix.F_RDLCK); err == nil {
			info, err = file.Stat()
			log.unlock()
		}
	}
	if err != nil {
		file.Close()
		return nil, log.fail(err)
	}
	return &Reader{io.NewSectionReader(file, 0, info.Size()), file}, nil
}

// Close closes it.
func (r *Reader) Close() error { return r.file.Close() }
