package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLabels and MaxLabelBytes bound the labels of a run: how many, and all names and values together.
const (
	MaxLabels     = 16
	MaxLabelBytes = 1024
)

// CheckLabel refuses what cannot be a label. A name begins with a small letter and has small letters, digits and . _ - in it, at most 64; a
// value is UTF-8 without control characters, and may be empty.
func CheckLabel(name, value string) error {
	switch {
	case name == "":
		return errors.New("the name is empty; write a name as task or task.id")
	case len(name) > 64 || name[0] < 'a' || name[0] > 'z' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "":
		return fmt.Errorf("%q cannot be a label's name; begin with a small letter and use at most 64 of a-z, 0-9, . _ and -", name)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: the value has control characters or is not UTF-8; write one line of text", name)
	}
	return nil
}

// WithLabels returns labels, ordered by name, in which those of more take the place of those with the same name in old. The error has what is
// wrong with one of them, or that there are too many.
func WithLabels(old []Var, more ...Var) ([]Var, error) {
	all := slices.Clone(old)
	for _, l := range more {
		all = append(slices.DeleteFunc(all, func(o Var) bool { return o.Name == l.Name }), l)
	}
	slices.SortFunc(all, func(a, b Var) int { return cmp.Compare(a.Name, b.Name) })
	return all, checkLabels(all)
}

func checkLabels(all []Var) error {
	bytes := 0
	for i, l := range all {
		if err := CheckLabel(l.Name, l.Value); err != nil {
			return err
		}
		if i > 0 && all[i-1].Name >= l.Name {
			return fmt.Errorf("%s is given twice, or out of order", l.Name)
		}
		bytes += len(l.Name) + len(l.Value)
	}
	if len(all) > MaxLabels || bytes > MaxLabelBytes {
		return fmt.Errorf("%d labels with %d bytes are too many; there may be %d, and %d bytes of names and values", len(all), bytes, MaxLabels, MaxLabelBytes)
	}
	return nil
}
