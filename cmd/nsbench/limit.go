package main

import "strings"

// limitSets are limits by what holds them, to be compared with a run that has the default ones alone.
var limitSets = []string{"", "open_files=256", "cpu_seconds=60", "tmpfs_mb=16", "output_bytes=1000000", "memory_mb=256", "pids=64", "cpu_percent=100",
	"memory_mb=256 pids=64 cpu_percent=100"}

// benchLimits measures what each limit adds to a run. What takes a cgroup is left out where none can be made: nsrun refuses it there.
func benchLimits(nsrun string, rounds int) error {
	all := []*runner{{name: "fork+exec", argv: []string{"/bin/true"}}}
	for _, set := range limitSets {
		r := &runner{name: "nsrun run", argv: []string{nsrun, "run"}}
		for limit := range strings.FieldsSeq(set) {
			r.name += " --limit " + limit
			r.argv = append(r.argv, "--limit", limit)
		}
		r.argv = append(r.argv, "--", "/bin/true")
		if works(r) {
			all = append(all, r)
		}
	}
	return compare("limits", rounds, all)
}
