package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing wrong with a manifest.
type Fault struct {
	File         string // the name given to Parse
	Line, Column int    // counted from 1, columns in characters; 0 for a manifest that was not read from a file
	Key          string // the dotted path of the value, "capabilities[2].mode"; empty for the whole file
	Text         string // what is wrong
	Fix          string // what to do about it
}

// Error gives "file:line:column: key: text (fix)".
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	for _, part := range []string{f.Key, f.Text} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if f.Fix != "" {
		b.WriteString(" (" + f.Fix + ")")
	}
	return b.String()
}

// maxFaults is how many faults are kept; a file with more is not a manifest at all.
const maxFaults = 100

// faults collects what is wrong.
type faults struct {
	file string
	all  []*Fault
}

func (f *faults) full() bool { return len(f.all) >= maxFaults }

func (f *faults) add(at place, key, text, fix string) {
	if !f.full() {
		f.all = append(f.all, &Fault{f.file, at.line, at.column, key, text, fix})
	}
}

// err gives all faults, joined, in the order of their places.
func (f *faults) err() error {
	slices.SortStableFunc(f.all, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Key, b.Key))
	})
	errs := make([]error, len(f.all))
	for i, one := range f.all {
		errs[i] = one
	}
	if f.full() {
		errs = append(errs, &Fault{File: f.file, Text: "there are more faults than " + strconv.Itoa(maxFaults) + "; the rest is not shown"})
	}
	return errors.Join(errs...)
}

// clip shortens what a file says for an error text.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
