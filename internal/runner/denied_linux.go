package runner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// mostDenials is how many denials a result has.
const mostDenials = 100

// denied returns the denials of a result: those that its ending shows, the likeliest cause first, before those that the listener has found.
func denied(p *plan.Plan, r result.Result, out backend.Outcome) []result.Denial {
	all := netDenials(out.Net)
	if out.Explain == nil {
		return append(all, out.Denials...)
	}
	if r.Signal == "SIGSYS" && p.Seccomp != nil {
		all = append(all, killedFor(p.Seccomp))
	}
	for _, name := range reached(r, out) {
		all = append(all, atLimit(p, name))
	}
	all = append(all, out.Denials...)
	return all[:min(len(all), mostDenials)]
}

// killedFor is the call that the filters have killed the command for. Those that nsrun makes kill for calls of other architectures alone, and
// refuse all else: see [seccomp.Compile]. A filter that was given may kill for anything. A command that sends itself the signal looks the same.
func killedFor(s *plan.Seccomp) result.Denial {
	d := result.Denial{Kind: "foreign-arch", Op: "a call of another architecture", Rule: "seccomp", Count: 1}
	if len(s.Raw) > 0 {
		d.Kind, d.Op = "syscall", "a call that a filter kills for"
	}
	return d
}

// reached returns the names of the limits that ended a command, and of those that hindered it.
func reached(r result.Result, out backend.Outcome) (names []string) {
	switch r.Verdict {
	case result.Timeout:
		names = append(names, timeLimit)
	case result.CPU:
		names = append(names, policy.CPUSeconds)
	case result.FileSize:
		names = append(names, policy.FileSizeMB)
	case result.Memory:
		names = append(names, policy.MemoryMB)
	case result.Pids:
		names = append(names, policy.Pids)
	case result.Output:
		if out.Output[0].Over || out.Output[1].Over { // else the reader was in the way
			names = append(names, policy.OutputBytes)
		}
	}
	for _, name := range r.Hit {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

const timeLimit = "timeout"

// atLimit is a limit that was reached, and twice its value as what would allow more. There is no change where a larger value would not help:
// the operator's ceiling permits no more, no larger one can be set, or it is a share of the host's memory already.
func atLimit(p *plan.Plan, name string) result.Denial {
	d := result.Denial{Kind: "limit", Op: name, Rule: name, Count: 1}
	if name == timeLimit {
		now := time.Duration(p.Timeout)
		d.Op += "=" + now.String()
		if now <= math.MaxInt64/2 && !atCeiling(p, name) {
			d.Change = &result.Change{Flag: "--timeout " + (2 * now).String(), Manifest: fmt.Sprintf(`"limits": {"timeout": %q}`, 2*now)}
		}
		return d
	}
	now, ok := p.Bound(name)
	if !ok {
		return d
	}
	d.Op += fmt.Sprintf("=%d", now)
	row, _ := policy.LookupLimit(name)
	byDefault := slices.ContainsFunc(p.EnforcedBy, func(h plan.Enforcement) bool { return h.Default && strings.HasPrefix(h.Limit, name+"=") })
	if more := min(2*now, row.Max); more > now && !atCeiling(p, name) && !(byDefault && name == policy.MemoryMB) {
		d.Change = &result.Change{Flag: fmt.Sprintf("--limit %s=%d", name, more), Manifest: fmt.Sprintf(`"limits": {%q: %d}`, name, more)}
	}
	return d
}

// atCeiling reports whether a ceiling has cut a limit down.
func atCeiling(p *plan.Plan, name string) bool {
	return slices.ContainsFunc(p.Notes, func(n plan.Note) bool {
		return strings.Contains(n.Loss, "is beyond the ceiling") && (n.Feature == name || n.Feature == "limits" && strings.HasPrefix(n.Loss, name+" "))
	})
}
