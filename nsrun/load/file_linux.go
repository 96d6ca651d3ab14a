package load

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/nsrun/plan"
)

// File reads a regular file of at most limit bytes. It does not wait for a FIFO, and looks at what it has opened, not at what the name
// meant before.
func File(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory; name the file in it", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, info.Size(), limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	return data, err
}

// maxFilter is the size of the largest filter: 4096 instructions of 8 bytes.
const maxFilter = 4096 * 8

// maxOCIProfile is the size of the largest profile in JSON: Docker's has some 15 kB.
const maxOCIProfile = 1 << 20

// Filter reads a filter of system calls as raw BPF, or a profile in the JSON of Docker and the OCI runtimes, which only builds with libseccomp
// can make one of. An empty file is none, and not what was asked for.
func Filter(name string) ([]byte, error) {
	if strings.HasSuffix(name, ".json") {
		data, err := File(name, maxOCIProfile)
		if err == nil {
			data, err = plan.SeccompJSON(data, runtime.GOARCH)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return data, nil
	}
	data, err := File(name, maxFilter)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("%s is empty; a filter has at least one instruction of 8 bytes", name)
	}
	return data, err
}

// Real gives the real paths of files that the sandbox must not be able to write, because they govern, or report, this run or the next. What
// is not there is left out.
func Real(names ...string) []string {
	var all []string
	for _, name := range names {
		if path, err := realPath(name); err == nil {
			all = append(all, path)
		}
	}
	return all
}

func realPath(name string) (string, error) {
	abs, err := Absolute(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// Absolute gives a name that leads from any working directory where name leads from this one. Unlike filepath.Abs it leaves .. to the
// kernel: after a symlink that is not the directory written before it.
func Absolute(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	cwd, err := os.Getwd()
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: the working directory is gone: %w; give an absolute path", name, err)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return cwd + "/" + name, nil
	}
	return filepath.Join(cwd, name), nil
}
