package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// applyLimits sets the limits that --limit names, each of them once.
func (f *flags) applyLimits(pol *policy.Policy) (faults []error) {
	given := map[string]string{}
	for _, word := range f.limits {
		name, n, err := parseLimit(word)
		if err == nil && given[name] != "" {
			err = fmt.Errorf("--limit %s is given twice, as %q and as %q; give one of them", name, given[name], word)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		given[name] = word
		*pol = pol.WithLimit(name, n)
	}
	return faults
}

// parseLimit reads NAME=NUMBER, where the number may have a unit. A name that no limit has is an error of the policy.
func parseLimit(word string) (name string, n int64, err error) {
	name, value, ok := strings.Cut(word, "=")
	if name == "timeout" || name == "kill_grace" {
		if _, err := strconv.Atoi(value); err == nil {
			value += "s"
		}
		return "", 0, fmt.Errorf("--limit %s: it is a flag of its own; write --%s %s", word, strings.ReplaceAll(name, "_", "-"), cmp.Or(value, "30s"))
	}
	if !ok || name == "" || value == "" {
		return "", 0, fmt.Errorf("--limit %s: write NAME=NUMBER, as in --limit open_files=256 or --limit memory_mb=2G", word)
	}
	row, known := policy.LookupLimit(name)
	if !known {
		return name, 0, nil
	}
	if n, err = row.Parse(value); err != nil {
		return "", 0, fmt.Errorf("--limit %s: %w", word, err)
	}
	return name, n, nil
}
