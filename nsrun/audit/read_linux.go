package audit

import (
	"errors"
	"io"
	"os"

	"github.com/nsrun/nsrun/internal/fault"
	"golang.org/x/sys/unix"
)

// Read opens a log for [Verify] and [Runs], as it is now: all rows that are in it, and no half of one that is being written. An error is a [*fault.Error].
func Read(name string) (io.ReadCloser, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &fault.Error{Path: name, Err: errors.Unwrap(err), Hint: openHint(err)}
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
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, 0, info.Size()), file}, nil
}
