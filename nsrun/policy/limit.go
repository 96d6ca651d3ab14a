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

// LimitRow is all that nsrun knows of one limit: a new limit is a new row. Manifests, flags, schemas, help, documents, ceilings, plans, cgroups,
// containers and receipts read it. A limit with a Controller bounds all processes together, by files of a cgroup or flags of a container; one
// without bounds each process, by an rlimit. A limit that has neither, or is special in another way, has a constant: see [MemoryMB].
type LimitRow struct {
	Name, Unit, Help string // Help says what is limited
	Min, Max         int64
	Default          int64         // where no policy names the limit, if that is a number: see [LimitRow.DefaultWords]
	DefaultText      string        // on the default
	Unset            int64         // what the kernel goes by where nobody sets it; 0 is no bound
	EnforcedBy       string        // in words
	Aliases          string        // what people write for it, separated by spaces
	Scale            int64         // how many of the kernel's units are one Unit; 0 is 1
	Rlimit           string        // its name in the package rlimit
	Grace            int64         // by how much the hard limit is above the soft one
	Controller       string        // of cgroups
	V1, V2           []ControlFile // of a cgroup of either version; none if the limit cannot be had there
	Flags            []string      // of docker and podman, with the value as %d; none if they cannot have the limit
	Lack, Instead    string        // what is missing where nothing can enforce it, and what else to do
}

// ControlFile is what is written to a file of a cgroup: the fields of cgroup.File, with the value as %d.
type ControlFile struct {
	Name, Value    string
	Disk, Optional bool
}

// The limits that other code knows by name, as they are special in some way.
const (
	MemoryMB    = "memory_mb"
	CPUPercent  = "cpu_percent"
	Pids        = "pids"
	IOWriteMB   = "io_write_mb"
	CPUSeconds  = "cpu_seconds"
	Core        = "core"
	TmpfsMB     = "tmpfs_mb"
	HomeMB      = "home_mb"
	FileSizeMB  = "file_size_mb"
	OutputBytes = "output_bytes"

	NetConnections     = "net_connections"
	NetHostConnections = "net_per_host"
	NetHostMB          = "net_per_host_mb"
	NetIdleSeconds     = "net_idle_seconds"
)

const (
	mib      = 1 << 20
	maxMB    = 1 << 40 // in bytes still below 2^63
	maxCount = 1 << 31

	rlimited   = "an rlimit"
	bornInside = "where a sandbox can be born in its cgroup" // see plan: to move it there costs milliseconds
	byHelper   = "the network helper"
	noDisks    = "the speed of disks takes a cgroup with the controller io, and none can be made here"
)

// DefaultTmpfsMB bounds the private places together where no policy says otherwise: `go vet std` fills 512 MB.
const DefaultTmpfsMB = 2048

// LimitTable has every limit, as manifests and --limit spell it. Defaults are against accidents, far above what an honest program needs; lower limits
// that are in force already stay. The period of a CPU quota is 100 ms, the kernel's default and Docker's, so one percent is 1000 us.
var LimitTable = []LimitRow{
	{Name: MemoryMB, Unit: "MiB", Help: "memory of all processes together, swap and files in tmpfs included", Min: 1, Max: maxMB, Scale: mib,
		EnforcedBy: "a cgroup, of version 2 or 1, where one can be made; else RLIMIT_DATA of each process, and files in tmpfs not at all, with a note: " +
			"--require limits insists",
		DefaultText: "three quarters of the host's, " + bornInside,
		Aliases:     "memory mem ram rss memory_limit mem_limit max_memory memory_bytes memory_max mem_mb",
		Rlimit:      "data", Controller: "memory",
		V1:    []ControlFile{{Name: "memory.limit_in_bytes", Value: "%d"}, {Name: "memory.memsw.limit_in_bytes", Value: "%d", Optional: true}},
		V2:    []ControlFile{{Name: "memory.max", Value: "%d"}, {Name: "memory.swap.max", Value: "0", Optional: true}},
		Flags: []string{"--memory=%db", "--memory-swap=%db"}},
	{Name: CPUPercent, Unit: "%", Help: "share of CPU time of all processes together; 100 is one whole CPU", Min: 1, Max: 100 * 4096, Scale: 1000,
		EnforcedBy: "a cgroup; else refused", Aliases: "cpu cpus cpu_limit cpu_quota max_cpu", Controller: "cpu",
		V1:    []ControlFile{{Name: "cpu.cfs_period_us", Value: "100000"}, {Name: "cpu.cfs_quota_us", Value: "%d"}},
		V2:    []ControlFile{{Name: "cpu.max", Value: "%d 100000"}},
		Flags: []string{"--cpu-period=100000", "--cpu-quota=%d"},
		Lack:  "a CPU share takes a cgroup, and none can be made here", Instead: "; or use cpu_seconds"},
	// cpu.shares of version 1 and --cpu-shares have another scale, which runtimes convert in two ways: opencontainers/cgroups pull request 20.
	{Name: "cpu_weight", Help: "share of CPU time of all processes together, beside other cgroups that want it too", Min: 1, Max: 10000, Unset: 100,
		EnforcedBy: "a cgroup of version 2; else refused", DefaultText: "100, the kernel's", Aliases: "weight cpu_shares shares nice", Controller: "cpu",
		V2:   []ControlFile{{Name: "cpu.weight", Value: "%d"}},
		Lack: "a CPU weight takes a cgroup of version 2, and none can be made here", Instead: "; or use cpu_percent"},
	{Name: Pids, Help: "processes and threads", Min: 1, Max: 1 << 22, Default: 4096, // PIDS_MAX in kernel/cgroup/pids.c: no process has a higher number, either
		EnforcedBy: "a cgroup; else RLIMIT_NPROC in the sandbox's user namespace; for root, whom that does not bind, with nsrun run, kernel.pid_max of the " +
			"sandbox's pid namespace (Linux 6.14; from 1024 on, and up to 300 too early), else refused",
		DefaultText: "of root " + bornInside + ", or by kernel.pid_max",
		Aliases:     "pid processes procs nproc max_processes max_procs max_pids pids_limit pids_max threads tasks tasks_max",
		Rlimit:      "pids", Controller: "pids",
		V1:    []ControlFile{{Name: "pids.max", Value: "%d"}},
		V2:    []ControlFile{{Name: "pids.max", Value: "%d"}},
		Flags: []string{"--pids-limit=%d"}},
	{Name: "io_read_mb", Unit: "MiB/s", Help: "what all processes together read of each disk", Min: 1, Max: 1 << 30, Scale: mib,
		EnforcedBy: "a cgroup; else refused", Aliases: "io io_mb", Controller: "io",
		V1:   []ControlFile{{Name: "blkio.throttle.read_bps_device", Value: "%d", Disk: true}},
		V2:   []ControlFile{{Name: "io.max", Value: "rbps=%d", Disk: true}},
		Lack: noDisks},
	{Name: IOWriteMB, Unit: "MiB/s", Help: "what all processes together write to each disk", Min: 1, Max: 1 << 30, Scale: mib,
		EnforcedBy: "a cgroup, in version 1 only what is written past the page cache; else refused", Aliases: "io io_mb", Controller: "io",
		V1:   []ControlFile{{Name: "blkio.throttle.write_bps_device", Value: "%d", Disk: true}},
		V2:   []ControlFile{{Name: "io.max", Value: "wbps=%d", Disk: true}},
		Lack: noDisks},
	{Name: "open_files", Help: "open descriptors of each process", Min: 1, Max: 1 << 30, Default: 65536, EnforcedBy: rlimited,
		Aliases: "nofile fds file_descriptors max_files max_open_files", Rlimit: "open_files"},
	{Name: FileSizeMB, Unit: "MiB", Help: "largest file a process may write", Min: 1, Max: maxMB, Default: 64 << 10, Scale: mib, EnforcedBy: rlimited,
		Aliases: "fsize file_size max_file_size filesize file_mb disk disk_mb", Rlimit: "file_size"},
	// SIGXCPU at the soft limit, SIGKILL a second later (setrlimit(2)).
	{Name: CPUSeconds, Unit: "s", Help: "CPU time of each process", Min: 1, Max: maxCount, Default: 24 * 60 * 60, EnforcedBy: rlimited,
		Aliases: "cpu cpus cpu_limit cpu_quota max_cpu cpu_time cpu_time_seconds", Rlimit: "cpu_seconds", Grace: 1},
	{Name: Core, Unit: "bytes", Help: "largest core dump", Max: maxMB, Rlimit: "core", DefaultText: "0",
		EnforcedBy: rlimited + "; 0 is set as 1 byte, at which the kernel does not run the handler of a core_pattern either"},
	{Name: "address_space_mb", Unit: "MiB", Help: "address space of each process", Min: 1, Max: maxMB, Scale: mib, EnforcedBy: rlimited,
		Aliases: "address_space vmem virtual_memory as", Rlimit: "address_space"},
	{Name: "stack_mb", Unit: "MiB", Help: "stack of each process", Min: 1, Max: maxMB, Scale: mib, EnforcedBy: rlimited, Aliases: "stack stack_size", Rlimit: "stack"},
	{Name: "locked_mb", Unit: "MiB", Help: "locked memory of each process", Max: maxMB, Default: 64, Scale: mib, EnforcedBy: rlimited,
		Aliases: "locked memlock", Rlimit: "locked"},
	{Name: TmpfsMB, Unit: "MiB", Help: "files in all private places together, the home directory among them", Min: 1, Max: maxMB, Default: DefaultTmpfsMB,
		EnforcedBy:  "their file system, which bounds the number of files, too; with the backends bwrap and docker each place has one of this size",
		DefaultText: "or a quarter of the host's memory where that is less", Scale: mib, Aliases: "tmp tmp_mb tmp_size tmpfs tmpfs_size"},
	{Name: HomeMB, Unit: "MiB", Help: "files in the private home directory, which then is no part of tmpfs_mb", Min: 1, Max: maxMB,
		EnforcedBy: "a file system of its own, which bounds the number of files, too", DefaultText: "a part of tmpfs_mb", Aliases: "home home_size"},
	{Name: "message_queues", Unit: "bytes", Help: "POSIX message queues of the sandbox's user", Max: maxMB, Default: 800 << 10, EnforcedBy: rlimited,
		Rlimit: "message_queues"},
	{Name: "pending_signals", Help: "signals that wait, and timers, of the sandbox's user", Min: 1, Max: maxCount, Default: 4096, EnforcedBy: rlimited,
		Rlimit: "pending_signals"},
	{Name: OutputBytes, Unit: "bytes", Help: "what is passed on, or kept, of each of standard output and error", Min: 1, Max: 1 << 50, Default: 10 << 30,
		EnforcedBy:  "a pipe of nsrun's, where that is a pipe or a file, which file_size_mb then does not bound; the run is ended at more",
		DefaultText: "through a pipe", Aliases: "output max_output output_limit output_mb"},
	{Name: NetConnections, Help: "connections, and conversations by UDP, that are open at once through the network allow", Min: 1, Max: 1 << 20, Default: 4096,
		EnforcedBy: byHelper, Aliases: "connections max_connections net_conns"},
	{Name: NetHostConnections, Help: "those of them to one host", Min: 1, Max: 1 << 20, Default: 1024, EnforcedBy: byHelper, Aliases: "host_connections connections_per_host net_host_connections"},
	{Name: NetHostMB, Unit: "MiB", Help: "what is carried both ways between the network allow and one host", Min: 1, Max: maxMB, Scale: mib, EnforcedBy: byHelper,
		Aliases: "net_mb net_bytes host_mb net_host_mb"},
	{Name: NetIdleSeconds, Unit: "s", Help: "idle time after which a connection of the network allow ends; one by UDP after 60 s at most", Min: 1,
		Max: 365 * 24 * 60 * 60, Default: 60 * 60, EnforcedBy: byHelper, Aliases: "net_idle idle idle_timeout"},
}

// TimeTable describes the limits that are times, and flags of their own.
var TimeTable = []LimitRow{
	{Name: "timeout", Unit: "time", Help: "the run, by the clock", EnforcedBy: "a clock: SIGTERM, and SIGKILL after kill_grace",
		DefaultText: "30s with a manifest, 24h without, none with --tty",
		Aliases:     "wall wall_time walltime wall_seconds wall_clock time time_limit timeout_seconds timeout_s timeout_sec timeout_ms max_time deadline duration"},
	{Name: "kill_grace", Unit: "time", Help: "the time between SIGTERM and SIGKILL", EnforcedBy: "a clock", DefaultText: "2s",
		Aliases: "grace grace_period kill_after"},
}

// DefaultWords says what holds where no policy says otherwise; empty if nothing does.
func (r LimitRow) DefaultWords() string {
	switch {
	case r.Default == 0:
		return r.DefaultText
	case r.DefaultText == "":
		return strconv.FormatInt(r.Default, 10)
	}
	return strconv.FormatInt(r.Default, 10) + ", " + r.DefaultText
}

// Amount is a value in the kernel's unit.
func (r LimitRow) Amount(value int64) int64 { return value * max(r.Scale, 1) }

// Fill puts a value, in the kernel's unit, into a file's text or a flag of the row.
func (r LimitRow) Fill(text string, value int64) string {
	return strings.ReplaceAll(text, "%d", strconv.FormatInt(r.Amount(value), 10))
}

// LookupLimit finds a limit's description by name.
func LookupLimit(name string) (LimitRow, bool) {
	i := slices.IndexFunc(LimitTable, func(r LimitRow) bool { return r.Name == name })
	if i < 0 {
		return LimitRow{}, false
	}
	return LimitTable[i], true
}

// Check says what is wrong with the limit, if anything.
func (l Limit) Check() error {
	row, ok := LookupLimit(l.Name)
	if !ok {
		return fmt.Errorf("limit %q: unknown; %s", l.Name, suggestLimit(l.Name))
	}
	if l.Value < row.Min || l.Value > row.Max {
		return fmt.Errorf("limit %s: %d is out of range; give %d to %d", l.Name, l.Value, row.Min, row.Max)
	}
	return nil
}

// suggestLimit answers a name that no limit has.
func suggestLimit(name string) string {
	names := make([]string, len(LimitTable))
	for i, r := range LimitTable {
		names[i] = r.Name
	}
	meant := LimitsMeantBy(name)
	if near, ok := Nearest(name, names); ok && len(meant) == 0 {
		meant = []string{near}
	}
	if len(meant) > 0 {
		return "did you mean " + strings.Join(meant, " or ") + "?"
	}
	return "known are " + strings.Join(names, ", ")
}

// LimitsMeantBy finds the limits and times that were probably meant: by another word for them, or by a name that lacks its unit.
func LimitsMeantBy(name string) (all []string) {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, meant := range []func(LimitRow) bool{
		func(r LimitRow) bool { return slices.Contains(strings.Fields(r.Aliases), name) },
		func(r LimitRow) bool { return strings.HasPrefix(r.Name, name+"_") },
	} {
		for _, r := range slices.Concat(LimitTable, TimeTable) {
			if meant(r) && len(name) > 0 {
				all = append(all, r.Name)
			}
		}
		if len(all) > 0 {
			return all
		}
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
