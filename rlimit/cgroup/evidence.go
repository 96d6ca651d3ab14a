package cgroup

import (
	"strconv"
	"strings"
)

// Evidence is what a group's files report about its processes. A number that the kernel does not report is 0.
type Evidence struct {
	OOMKills  int64 `json:"oom_kills,omitempty"`  // processes killed because the group's memory was used up
	PidsMax   int64 `json:"pids_max,omitempty"`   // forks and threads refused because the limit was reached
	Throttled int64 `json:"throttled,omitempty"`  // microseconds in which the group waited for its share of the CPU
	PeakBytes int64 `json:"peak_bytes,omitempty"` // most memory that was in use at once, page cache and tmpfs included
	PeakPids  int64 `json:"peak_pids,omitempty"`  // most processes and threads at once
}

// Since returns what has happened since before was read. The peaks stay as they are, because a kernel before 6.12 cannot reset them.
func (e Evidence) Since(before Evidence) Evidence {
	e.OOMKills -= before.OOMKills
	e.PidsMax -= before.PidsMax
	e.Throttled -= before.Throttled
	return e
}

// Later returns the later of two readings of one group, whose numbers only grow.
func (e Evidence) Later(other Evidence) Evidence {
	return Evidence{max(e.OOMKills, other.OOMKills), max(e.PidsMax, other.PidsMax), max(e.Throttled, other.Throttled),
		max(e.PeakBytes, other.PeakBytes), max(e.PeakPids, other.PeakPids)}
}

// sources has the file of each number and the word before it. Without a word, the number is the whole file.
var sources = []struct {
	version    int
	file, word string
	unit       int64 // divisor
	into       func(*Evidence) *int64
}{
	{2, "memory.events", "oom_kill", 1, func(e *Evidence) *int64 { return &e.OOMKills }},      // Linux 4.13
	{2, "memory.peak", "", 1, func(e *Evidence) *int64 { return &e.PeakBytes }},               // 5.19
	{2, "pids.events", "max", 1, func(e *Evidence) *int64 { return &e.PidsMax }},              // 4.5
	{2, "pids.peak", "", 1, func(e *Evidence) *int64 { return &e.PeakPids }},                  // 6.1
	{2, "cpu.stat", "throttled_usec", 1, func(e *Evidence) *int64 { return &e.Throttled }},    // 4.15
	{1, "memory.oom_control", "oom_kill", 1, func(e *Evidence) *int64 { return &e.OOMKills }}, // 4.13
	{1, "memory.max_usage_in_bytes", "", 1, func(e *Evidence) *int64 { return &e.PeakBytes }}, // 2.6.29
	{1, "pids.events", "max", 1, func(e *Evidence) *int64 { return &e.PidsMax }},              // 4.7
	{1, "cpu.stat", "throttled_time", 1000, func(e *Evidence) *int64 { return &e.Throttled }}, // 3.2, in nanoseconds
}

// value returns the number after word at the beginning of a line or, if word is empty, the number on the first line.
func value(text, word string) (int64, bool) {
	for line := range strings.SplitSeq(text, "\n") {
		rest, ok := line, true
		if word != "" {
			rest, ok = strings.CutPrefix(line, word+" ")
		}
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}
