package session

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine is how long a line may be, in bytes.
const MaxLine = 16 << 20

var errLong = errors.New("the line is too long")

// lines reads lines of at most so many bytes.
type lines struct {
	in   *bufio.Reader
	most int
	kept []byte
}

func newLines(in io.Reader, most int) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), most: most}
}

// next returns a line without its end, good until the next call. One that is too long is skipped, in constant memory, and is [errLong], with
// what it begins with. What stands before the end of the input without a line end is no line: its writer may have died in the middle of it.
func (l *lines) next() ([]byte, error) {
	if cap(l.kept) > 1<<20 {
		l.kept = nil
	}
	l.kept = l.kept[:0]
	for long := false; ; {
		part, err := l.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		switch {
		case long:
		case len(l.kept)+len(part) > l.most+1:
			long = true
			l.kept = bytes.Clone(append(l.kept, part...)[:min(l.most, 2*maxID)])
		default:
			l.kept = append(l.kept, part...)
		}
		switch {
		case err == nil && long:
			return l.kept, errLong
		case err == nil:
			return l.kept[:len(l.kept)-1], nil
		}
	}
}
