package bwrap

import (
	"slices"
	"strings"
)

// environment is a list of NAME=value strings that is changed as setenv(3) and unsetenv(3) change it: what is set stays in its
// place, and a name that is there twice is so until it is taken out.
type environment []string

func validName(name string) bool { return name != "" && !strings.Contains(name, "=") }

func (e *environment) set(name, value string) bool {
	if !validName(name) {
		return false
	}
	entry := name + "=" + value
	i := slices.IndexFunc(*e, func(have string) bool { return strings.HasPrefix(have, name+"=") })
	if i < 0 {
		*e = append(*e, entry)
	} else {
		(*e)[i] = entry
	}
	return true
}

func (e *environment) unset(name string) bool {
	if !validName(name) {
		return false
	}
	*e = slices.DeleteFunc(*e, func(have string) bool { return strings.HasPrefix(have, name+"=") })
	return true
}

func (e environment) get(name string) (string, bool) {
	for _, have := range e {
		if value, ok := strings.CutPrefix(have, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
