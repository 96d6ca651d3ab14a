package seccomp

import (
	"errors"
	"fmt"
	"strings"
)

// startup are the calls that are needed after the filters are in place: exec, and the report that exec failed.
const startup = "execve exit exit_group rt_sigreturn write"

// Deny returns a filter that fails the named calls with EPERM and allows all others. It is to be stacked with a profile's filter: the
// kernel takes the strictest answer, so Deny never permits anything. A call that only another architecture has is skipped.
//
// The error lists every name that is no system call, with the most similar one, and every call without which a program cannot be started.
//
// Pass the filter to [Lower] last: it may deny seccomp or prctl themselves.
func Deny(names []string, arch Arch) (Filter, error) {
	var faults []error
	var calls []string
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case seen[name]:
			continue
		case name == "" || strings.ContainsAny(name, " \t\n\v\f\r") || !known(name):
			faults = append(faults, unknown(name))
		case strings.Contains(" "+startup+" ", " "+name+" "):
			faults = append(faults, fmt.Errorf("system call %s: cannot be denied, starting a program needs it", name))
		}
		seen[name] = true
		calls = append(calls, name)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p := Profile{Name: "deny", Default: Allow, Rules: []Rule{{Calls: strings.Join(calls, " "), Action: eperm}}}
	return Compile(p, arch)
}

// unknown returns the error for a name that no architecture has.
func unknown(name string) error {
	if near := nearest(name); near != "" {
		return fmt.Errorf("system call %q: no such call; did you mean %s?", name, near)
	}
	return fmt.Errorf("system call %q: no such call", name)
}

// nearest returns the name that takes the fewest edits, if these are at most three and at most half the letters of name.
func nearest(name string) string {
	best, edits := "", len(name)
	for _, a := range Arches() {
		rows, _ := a.rows()
		for _, row := range rows {
			if d := distance(name, row.name); d < edits {
				best, edits = row.name, d
			}
		}
	}
	if edits > min(3, len(name)/2) {
		return ""
	}
	return best
}

// distance returns the Levenshtein distance of a and b. It gives up early if a is much longer.
func distance(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
