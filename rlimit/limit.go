package rlimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Infinity is the value for no limit.
const Infinity = ^uint64(0)

// Limit is the soft and the hard limit of one resource, in the kernel's unit.
type Limit struct {
	Name string `json:"name"`
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Both returns a limit with equal soft and hard values. The program that gets it cannot raise it again.
func Both(name string, value uint64) Limit { return Limit{name, value, value} }

// String returns "open_files=1024" or "open_files=1024:4096".
func (l Limit) String() string {
	if l.Soft == l.Hard {
		return l.Name + "=" + number(l.Soft)
	}
	return l.Name + "=" + number(l.Soft) + ":" + number(l.Hard)
}

func number(n uint64) string {
	if n == Infinity {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// Resource is one row of the kernel's table.
type Resource struct {
	Name   string // as nsrun spells it
	Kernel string // as getrlimit(2) spells it
	Number int    // RLIMIT_*, the same on amd64 and arm64 (include/uapi/asm-generic/resource.h)
	Unit   string
}

var resources = [...]Resource{
	{"cpu_seconds", "RLIMIT_CPU", 0, "s"},
	{"file_size", "RLIMIT_FSIZE", 1, "bytes"},
	{"data", "RLIMIT_DATA", 2, "bytes"},
	{"stack", "RLIMIT_STACK", 3, "bytes"},
	{"core", "RLIMIT_CORE", 4, "bytes"},
	{"rss", "RLIMIT_RSS", 5, "bytes"},
	{"pids", "RLIMIT_NPROC", 6, ""},
	{"open_files", "RLIMIT_NOFILE", 7, ""},
	{"locked", "RLIMIT_MEMLOCK", 8, "bytes"},
	{"address_space", "RLIMIT_AS", 9, "bytes"},
	{"locks", "RLIMIT_LOCKS", 10, ""},
	{"pending_signals", "RLIMIT_SIGPENDING", 11, ""},
	{"message_queues", "RLIMIT_MSGQUEUE", 12, "bytes"},
	{"nice", "RLIMIT_NICE", 13, ""},
	{"realtime_priority", "RLIMIT_RTPRIO", 14, ""},
	{"realtime_microseconds", "RLIMIT_RTTIME", 15, "us"},
}

// Resources returns every resource, in the kernel's order.
func Resources() []Resource { return slices.Clone(resources[:]) }

// Lookup finds a resource by its name in this package or in the kernel.
func Lookup(name string) (Resource, error) {
	for _, r := range resources {
		if r.Name == name || r.Kernel == name {
			return r, nil
		}
	}
	var names []string
	for _, r := range resources {
		names = append(names, r.Name)
	}
	return Resource{}, fmt.Errorf("resource limit %q is unknown; known are %s", name, strings.Join(names, ", "))
}
