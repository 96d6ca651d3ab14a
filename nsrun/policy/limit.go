package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Limit is one resource limit. Value is in the unit that the name says.
type Limit struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// LimitName describes a limit that a policy may set.
type LimitName struct {
	Name string
	Unit string
	Help string
	Max  int64
}

const (
	maxMB    = 1 << 40 // in bytes still below 2^63
	maxCount = 1 << 31
)

// LimitNames lists every limit, as manifests and --limit spell them.
var LimitNames = []LimitName{
	{"memory_mb", "MiB", "memory of the whole sandbox", maxMB},
	{"cpu_percent", "%", "CPU share; 100 is one whole CPU", 100 * 4096},
	{"pids", "", "processes and threads", 1 << 22},
	{"cpu_seconds", "s", "CPU time of each process", maxCount},
	{"file_size_mb", "MiB", "largest file a process may write", maxMB},
	{"open_files", "", "open descriptors of each process", 1 << 30},
	{"core", "bytes", "largest core dump", maxMB},
	{"address_space_mb", "MiB", "address space of each process", maxMB},
	{"stack_mb", "MiB", "stack of each process", maxMB},
	{"locked_mb", "MiB", "locked memory of each process", maxMB},
	{"tmpfs_mb", "MiB", "each private tmpfs", maxMB},
	{"output_bytes", "bytes", "output kept of each stream", 1 << 50},
}

// LookupLimit finds a limit's description by name.
func LookupLimit(name string) (LimitName, bool) {
	i := slices.IndexFunc(LimitNames, func(l LimitName) bool { return l.Name == name })
	if i < 0 {
		return LimitName{}, false
	}
	return LimitNames[i], true
}

// Check says what is wrong with the limit, if anything.
func (l Limit) Check() error {
	d, ok := LookupLimit(l.Name)
	if !ok {
		names := make([]string, len(LimitNames))
		for i, n := range LimitNames {
			names[i] = n.Name
		}
		return fmt.Errorf("limit %q: unknown; known are %s", l.Name, strings.Join(names, ", "))
	}
	least := int64(1)
	if l.Name == "core" || l.Name == "locked_mb" {
		least = 0
	}
	if l.Value < least || l.Value > d.Max {
		return fmt.Errorf("limit %s: %d is out of range; give %d to %d", l.Name, l.Value, least, d.Max)
	}
	return nil
}

// Limit returns the value of the named limit and whether it is set.
func (p Policy) Limit(name string) (int64, bool) {
	for _, l := range p.Limits {
		if l.Name == name {
			return l.Value, true
		}
	}
	return 0, false
}

// WithLimit returns p with the named limit set to value, in place of any former one.
func (p Policy) WithLimit(name string, value int64) Policy {
	limits := slices.DeleteFunc(slices.Clone(p.Limits), func(l Limit) bool { return l.Name == name })
	p.Limits = append(limits, Limit{name, value})
	return p
}
