package bwrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// ParseLayers reads what an operator adds to this compat mode: words separated by commas or line breaks, "#" to the end of a line aside.
//
//	landlock                  rights on files as the mounts grant them
//	seccomp, seccomp=FILTER   a filter of nsrun's
//	limits=NAME=NUMBER        one limit; repeated for more
//
// Every fault is reported. No word at all is no layer.
func ParseLayers(text string) (plan.Layers, error) {
	var l plan.Layers
	var faults []error
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Split(line, ",") {
			if word = strings.TrimSpace(word); word != "" {
				faults = append(faults, addLayer(&l, word))
			}
		}
	}
	return l, errors.Join(faults...)
}

func addLayer(l *plan.Layers, word string) error {
	name, value, given := strings.Cut(word, "=")
	switch {
	case name == "landlock" && !given:
		l.Landlock = true
	case name == "seccomp" && !given:
		l.Seccomp = &policy.Seccomp{}
	case name == "seccomp" && value != "" && value != policy.SeccompOff:
		l.Seccomp = &policy.Seccomp{Filter: value}
	case name == "limits":
		return addLimit(l, value)
	default:
		return fmt.Errorf("layer %q: write landlock, seccomp, seccomp=FILTER or limits=NAME=NUMBER, separated by commas, limits= before each limit", word)
	}
	return nil
}

func addLimit(l *plan.Layers, text string) error {
	name, number, given := strings.Cut(text, "=")
	if !given || number == "" {
		return fmt.Errorf("layer limits=%s: write limits=NAME=NUMBER, as in limits=open_files=256", text)
	}
	row, _ := policy.LookupLimit(name)
	value, err := row.Parse(number)
	if _, known := policy.LookupLimit(name); known && err != nil {
		return fmt.Errorf("layer limits=%s: %w", text, err)
	}
	limit := policy.Limit{Name: name, Value: value}
	if err := limit.Check(); err != nil {
		return fmt.Errorf("layer %w", err)
	}
	switch name {
	case policy.TmpfsMB, policy.HomeMB:
		return fmt.Errorf("layer limit %s: bubblewrap has --size for that", name)
	case policy.OutputBytes:
		return fmt.Errorf("layer limit %s: the command writes to the caller's descriptors, where nothing is counted; leave it out, or cut the output with head -c", name)
	case policy.NetConnections, policy.NetHostConnections, policy.NetHostMB, policy.NetIdleSeconds:
		return fmt.Errorf("layer limit %s: it counts in a network with rules, which bubblewrap has not; leave it out", name)
	}
	if slices.ContainsFunc(l.Limits, func(o policy.Limit) bool { return o.Name == name }) {
		return fmt.Errorf("layer limit %s: given twice", name)
	}
	l.Limits = append(l.Limits, limit)
	return nil
}
