package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// tail is what a log ends with.
type tail struct {
	size   int64
	prev   string // hash of the last line
	open   []Run  // as the last row has it
	torn   *Torn  // the last line, if it is no row
	ragged bool   // it has no newline
}

// lookBack is how many lines before one that is no row are looked at for the last one that is.
const lookBack = 16

// tail reads the end of the log. The caller holds the lock.
func (l *Log) tail() (t tail, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return t, err
	}
	t.size, t.prev = info.Size(), Genesis
	end := t.size
	for i := 0; i < lookBack && end > 0; i++ {
		start, textEnd, whole, err := l.lineBefore(end)
		if err != nil {
			return t, err
		}
		row, bad := Row{}, true
		if whole && textEnd-start < MaxRow {
			data := make([]byte, textEnd-start)
			if _, err := l.file.ReadAt(data, start); err != nil {
				return t, err
			}
			var parseErr error
			row, parseErr = ParseRow(data)
			bad = parseErr != nil || len(row.Open) > maxOpen
		}
		if i == 0 {
			if t.prev, err = l.hashOf(start, textEnd); err != nil {
				return t, err
			}
			t.ragged = !whole
			if bad {
				t.torn = &Torn{Bytes: textEnd - start, SHA256: t.prev}
			}
		}
		if !bad {
			t.open = row.Open
			return t, nil
		}
		end = start
	}
	return t, nil
}

// lineBefore finds the line that ends at end; it is whole if it has a newline, which does not count as its text.
func (l *Log) lineBefore(end int64) (start, textEnd int64, whole bool, err error) {
	chunk := make([]byte, 4096)
	textEnd = end
	for at := end; at > 0; {
		n := min(int64(len(chunk)), at)
		at -= n
		if _, err := l.file.ReadAt(chunk[:n], at); err != nil {
			return 0, 0, false, err
		}
		have := chunk[:n]
		if at+n == end && have[n-1] == '\n' {
			whole, textEnd, have = true, end-1, have[:n-1]
		}
		if i := bytes.LastIndexByte(have, '\n'); i >= 0 {
			return at + int64(i) + 1, textEnd, whole, nil
		}
	}
	return 0, textEnd, whole, nil
}

// hashOf is the SHA-256 of a part of the file, which may be larger than any row.
func (l *Log) hashOf(from, to int64) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(l.file, from, to-from)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
