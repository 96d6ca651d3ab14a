package manifest

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// maxFaults is how many faults are kept; a file with more is not a manifest at all.
const maxFaults = 100

// faults collects what is wrong.
type faults struct {
	file string
	all  []*policy.Fault
}

func (f *faults) full() bool { return len(f.all) >= maxFaults }

func (f *faults) add(at place, key, text, fix string) {
	if !f.full() {
		f.all = append(f.all, &policy.Fault{File: f.file, Line: at.line, Column: at.column, Field: key, Text: text, Fix: fix})
	}
}

// err gives all faults, joined, in the order of their places.
func (f *faults) err() error {
	slices.SortStableFunc(f.all, func(a, b *policy.Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Field, b.Field))
	})
	errs := make([]error, len(f.all))
	for i, one := range f.all {
		errs[i] = one
	}
	if f.full() {
		errs = append(errs, &policy.Fault{File: f.file, Text: "there are more faults than " + strconv.Itoa(maxFaults) + "; the rest is not shown"})
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
