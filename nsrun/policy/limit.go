package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limit is one resource limit. Value is in the unit that the name says.
type Limit struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// LimitName describes a limit that a policy may set.
type LimitName struct {
	Name        string
	Unit        string
	Help        string // of what
	Max         int64
	EnforcedBy  string // by what
	DefaultText string // on the value that it has where no policy says one, see [LimitName.Default]
}

const (
	maxMB    = 1 << 40 // in bytes still below 2^63
	maxCount = 1 << 31
)

// LimitNames lists every limit, as manifests and --limit spell them.
var LimitNames = []LimitName{
	{"memory_mb", "MiB", "memory of all processes together, swap and files in tmpfs included", maxMB,
		"a cgroup, of version 2 or 1, where one can be made; else RLIMIT_DATA of each process, and files in tmpfs not at all, with a note: " +
			"--require limits insists", "three quarters of the host's, " + bornInside},
	{"cpu_percent", "%", "share of CPU time of all processes together; 100 is one whole CPU", 100 * 4096, "a cgroup; else refused", ""},
	{"pids", "", "processes and threads", 1 << 22,
		"a cgroup; else RLIMIT_NPROC in the sandbox's user namespace; for root, whom that does not bind, with nsrun run, kernel.pid_max of the " +
			"sandbox's pid namespace (Linux 6.14; from 1024 on, and up to 300 too early), else refused", "of root " + bornInside + ", or by kernel.pid_max"},
	{"io_read_mb", "MiB/s", "what all processes together read of each disk", 1 << 30, "a cgroup; else refused", ""},
	{"io_write_mb", "MiB/s", "what all processes together write to each disk", 1 << 30,
		"a cgroup, in version 1 only what is written past the page cache; else refused", ""},
	{"cpu_seconds", "s", "CPU time of each process", maxCount, rlimited, ""},
	{"file_size_mb", "MiB", "largest file a process may write", maxMB, rlimited, ""},
	{"open_files", "", "open descriptors of each process", 1 << 30, rlimited, ""},
	{"core", "bytes", "largest core dump", maxMB,
		rlimited + "; 0 is set as 1 byte, at which the kernel does not run the handler of a core_pattern either", ""},
	{"address_space_mb", "MiB", "address space of each process", maxMB, rlimited, ""},
	{"stack_mb", "MiB", "stack of each process", maxMB, rlimited, ""},
	{"locked_mb", "MiB", "locked memory of each process", maxMB, rlimited, ""},
	{"tmpfs_mb", "MiB", "each private tmpfs", maxMB, "the mount, which bounds the number of files, too", ""},
	{"message_queues", "bytes", "POSIX message queues of the sandbox's user", maxMB, rlimited, ""},
	{"pending_signals", "", "signals that wait, and timers, of the sandbox's user", maxCount, rlimited, ""},
	{"output_bytes", "bytes", "what is passed on, or kept, of each of standard output and error", 1 << 50,
		"a pipe of nsrun's, where that is a pipe or a file, which file_size_mb then does not bound; the run is ended at more", "through a pipe"},
}

// TimeNames describes the limits that are times, and flags of their own. Their values are not bounded by Max.
var TimeNames = []LimitName{
	{"timeout", "time", "the run, by the clock", 0, "a clock: SIGTERM, and SIGKILL after kill_grace",
		"30s with a manifest, 24h without, none with --tty"},
	{"kill_grace", "time", "the time between SIGTERM and SIGKILL", 0, "a clock", "2s"},
}

const (
	rlimited   = "an rlimit"
	bornInside = "where a sandbox can be born in its cgroup" // see plan: to move it there costs milliseconds
)

// DefaultTmpfsMB bounds a private tmpfs where no policy says otherwise.
const DefaultTmpfsMB = 512

// Default says in words what holds where no policy says otherwise; empty if nothing does.
func (d LimitName) Default() string {
	known := append([]Limit{{"tmpfs_mb", DefaultTmpfsMB}}, Default("").Limits...)
	for _, l := range append(known, DefaultLimits...) {
		switch {
		case l.Name != d.Name:
		case d.DefaultText == "":
			return strconv.FormatInt(l.Value, 10)
		default:
			return strconv.FormatInt(l.Value, 10) + ", " + d.DefaultText
		}
	}
	return d.DefaultText
}

// DefaultLimits hold in every sandbox whose policy does not name others: against accidents, far above what an honest program needs. To them
// comes memory_mb, three quarters of the host's, where a cgroup can be made. Where lower ones are in force already these stay.
var DefaultLimits = []Limit{{"pids", 4096}, {"open_files", 65536}, {"file_size_mb", 64 << 10}, {"cpu_seconds", 24 * 60 * 60}, {"locked_mb", 64},
	{"message_queues", 800 << 10}, {"pending_signals", 4096}, {"output_bytes", 10 << 30}}

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
		if meant := meant(l.Name, names); len(meant) > 0 {
			return fmt.Errorf("limit %q: unknown; did you mean %s?", l.Name, strings.Join(meant, " or "))
		}
		return fmt.Errorf("limit %q: unknown; known are %s", l.Name, strings.Join(names, ", "))
	}
	least := int64(1)
	if l.Name == "core" || l.Name == "locked_mb" || l.Name == "message_queues" {
		least = 0
	}
	if l.Value < least || l.Value > d.Max {
		return fmt.Errorf("limit %s: %d is out of range; give %d to %d", l.Name, l.Value, least, d.Max)
	}
	return nil
}

// meant finds the limits that were probably meant: of a misspelt name, or of one that lacks its unit.
func meant(name string, known []string) (all []string) {
	for _, k := range known {
		if strings.HasPrefix(k, strings.ToLower(name)+"_") {
			all = append(all, k)
		}
	}
	if near, ok := Nearest(name, known); ok && len(all) == 0 {
		all = []string{near}
	}
	return all
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
