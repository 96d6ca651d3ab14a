package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// byFlag puts the flag that was given in the place of the policy's field that it filled. What a manifest fills has been checked, by
// line and key, before.
func (f *flags) byFlag(err error) error { return renamed(err, f.nameOf) }

// renamed puts another name in the place of the field of each fault of a policy, where they are joined.
func renamed(err error, name func(*policy.Fault) string) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var faults []error
	for _, one := range joined.Unwrap() {
		var fault *policy.Fault
		if !errors.As(one, &fault) || fault.File != "" {
			faults = append(faults, one)
			continue
		}
		text := name(fault) + ": " + fault.Text
		if rest, ok := strings.CutPrefix(text, "--limit: limit "); ok {
			text = "--limit " + rest
		}
		if !slices.ContainsFunc(faults, func(e error) bool { return e.Error() == text }) { // a path is source and dest at once
			faults = append(faults, errors.New(text))
		}
	}
	return errors.Join(faults...)
}

func (f *flags) nameOf(fault *policy.Fault) string {
	if strings.HasPrefix(fault.Why, "--") {
		return fault.Why
	}
	for _, row := range f.rows() {
		given := false
		target, _ := row.target()
		switch into := target.(type) {
		case *string:
			given = *into != ""
		case *stringList:
			given = len(*into) > 0
		}
		if given && row.field != "" && strings.HasPrefix(fault.Field, row.field) {
			return row.flag()
		}
	}
	return fault.Field
}
