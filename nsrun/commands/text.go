package commands

import (
	"fmt"
	"strings"
)

// String prints the rules, one a line, with what they set and what must not be there.
func (s Set) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "command rules %s\n", s.Name)
	for _, r := range s.Rules {
		fmt.Fprintf(&out, "  %s\n", r)
		if len(r.Env) > 0 {
			fmt.Fprintf(&out, "      with %s\n", strings.Join(r.Env, " "))
		}
		if len(r.Absent) > 0 {
			fmt.Fprintf(&out, "      unless there is %s: %s\n", strings.Join(r.Absent, ", "), r.Why)
		}
	}
	return out.String()
}
