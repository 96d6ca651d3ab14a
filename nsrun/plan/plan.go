package plan

import (
	"time"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
)

// Version is the version of the plan's JSON form.
const Version = 1

// Plan is all that a backend needs to run one command.
type Plan struct {
	Version        int           `json:"version"`
	Name           string        `json:"name,omitempty"`
	Autonomy       string        `json:"autonomy,omitempty"`      // unless it is supervised
	CommandRules   string        `json:"command_rules,omitempty"` // what command lines may run
	Rule           string        `json:"rule,omitempty"`          // of them, that accepted this one
	Backend        string        `json:"backend"`
	Command        []string      `json:"command"`
	Dir            string        `json:"dir"`
	Env            []string      `json:"env"`
	Identity       Identity      `json:"identity"`
	Namespaces     []string      `json:"namespaces"`
	Hostname       string        `json:"hostname"`
	Network        string        `json:"network"`
	Allow          *Allow        `json:"allow,omitempty"` // what can be reached by the network allow
	Mounts         []mount       `json:"mounts"`
	BoundedHome    string        `json:"bounded_home,omitempty"` // the home directory, if the limit home_mb bounds it
	Tmpfs          Tmpfs         `json:"tmpfs,omitzero"`         // the one that has the root and all mounts that are shared
	Landlock       *Landlock     `json:"landlock,omitempty"`
	Seccomp        *Seccomp      `json:"seccomp,omitempty"`
	Limits         []limit       `json:"limits,omitempty"`      // of each process
	SoftCaps       []limit       `json:"soft_caps,omitempty"`   // likewise, where those in force are not below already
	Scope          *Scope        `json:"scope,omitempty"`       // what nsrun's own process is moved to first
	Cgroups        []tree        `json:"cgroups,omitempty"`     // what is made for the sandbox, in each tree
	PidMax         int64         `json:"pid_max,omitempty"`     // kernel.pid_max of the sandbox's pid namespace; 0 leaves it
	EnforcedBy     []Enforcement `json:"enforced_by,omitempty"` // what else enforces limits
	Output         *Output       `json:"output,omitempty"`
	Terminal       bool          `json:"terminal,omitempty"`
	Timeout        Duration      `json:"timeout,omitempty"`
	MaxProcessTime Duration      `json:"max_process_time,omitempty"` // of a process in a session, which Timeout does not bound
	KillGrace      Duration      `json:"kill_grace"`
	LastCap        int           `json:"last_cap"` // the bounding set is dropped up to this capability
	Mechanisms     Mechanisms    `json:"mechanisms"`
	Bwrap          *Bwrap        `json:"bwrap,omitempty"` // by bubblewrap's rules
	Container      *Container    `json:"container,omitempty"`
	// KillScope kills what is left of the command's processes by the Landlock domain that they are in; without it and without a pid
	// namespace, by their process group.
	KillScope bool `json:"kill_scope,omitempty"`
	// Private is the directory that is made for this run alone. It is nil where mounts make one.
	Private *Private `json:"private,omitempty"`
	// Explain has the result report what was refused. It is nil where nothing is reported.
	Explain *Explain `json:"explain,omitempty"`
	// SelfTest lists the acts that must fail before the command is started.
	SelfTest []Act `json:"self_test,omitempty"`
	// Tools names the presets whose places are among the mounts.
	Tools []string `json:"tools,omitempty"`
	// Protect is what becomes of places that make the host run something. It is nil if the command can write to nothing of the host's.
	Protect *Protect `json:"protect,omitempty"`
	// Audit lists the logs that tell of the command, which it must not see.
	Audit []string `json:"audit,omitempty"`
	// Labels are the caller's words for them.
	Labels []policy.Var `json:"labels,omitempty"`
	// Holds lists the guarantees that hold.
	Holds []string `json:"holds,omitempty"`
	Notes []Note   `json:"notes,omitempty"`
}

type (
	mount = mounts.Op
	limit = rlimit.Limit
	tree  = cgroup.Tree
	// Note is one thing that is not as asked.
	Note = policy.Note
	// Facts is what is known of the host.
	Facts = facts.Facts
)

// Identity maps the one user and group that the sandbox knows.
type Identity struct {
	UID     int `json:"uid"`
	GID     int `json:"gid"`
	HostUID int `json:"host_uid"`
	HostGID int `json:"host_gid"`
}

// Tmpfs bounds a file system in memory. 0 leaves the kernel's default.
type Tmpfs struct {
	Size   int64 `json:"size"` // in bytes
	Inodes int64 `json:"inodes"`
}

// Landlock is the ruleset as this host's ABI takes it.
type Landlock struct {
	ABI int `json:"abi"`
	landlock.Ruleset
	// ByEntry are directories whose rule is given to what everybody may read in them, one by one, and not to what the view covers: if the host
	// replaces a file that is covered, the kernel takes the cover away (__detach_mounts), and a rule of the directory's would hold for the new file.
	ByEntry []string `json:"by_entry,omitempty"`
}

// Output bounds what a command writes to its caller: its standard output, and error, are pipes of nsrun's then, which counts what it passes
// on, and ends the run when it is more.
type Output struct {
	Bytes int64 `json:"bytes"` // of each stream
	// Pipes leaves descriptors alone that are no pipes, and pipes that have a name (fifo(7)).
	Pipes bool `json:"pipes,omitempty"`
}

// Container is what the backend docker takes beside the rest of a plan.
type Container struct {
	CLI   string   `json:"cli"`             // "docker" or "podman"
	Flags []string `json:"flags,omitempty"` // those of its run that bound all processes together
}

// Scope is a transient unit that a service manager of systemd's is asked for: a cgroup of version 2 that is delegated to nsrun's own process,
// which is moved there, and that is gone when the process ends. A tree of [Plan.Cgroups] whose directory is [InScope] is made in it.
type Scope struct {
	Socket      string `json:"socket"`
	Bus         bool   `json:"bus,omitempty"` // a bus that the manager is on, not the manager's own
	Tree        string `json:"tree"`          // where the cgroups of version 2 are mounted
	Description string `json:"description"`
	Delegate    bool   `json:"delegate"`
	CollectMode string `json:"collect_mode"`
}

// InScope stands for the directory of a plan's scope, which nobody knows before there is one.
const InScope = "the scope"

// Seccomp says which filters are installed.
type Seccomp struct {
	Filter string   `json:"filter"`
	Hash   string   `json:"hash,omitempty"` // SHA-256 of the filter for the host's architecture
	Deny   []string `json:"deny,omitempty"`
	Raw    []byte   `json:"raw,omitempty"`
	// Refuse lists groups of calls that are refused in the stead of namespaces that a backend does not have, and of noexec where there is no
	// mount: see [seccomp.Refuse].
	Refuse []string `json:"refuse,omitempty"`
}

// HasBuiltin reports whether a built-in filter is installed. The other filters are the caller's own, and may allow anything.
func (s *Seccomp) HasBuiltin() bool { return s != nil && s.Filter != policy.SeccompOff }

// Mechanisms are the ways of the kernel that lowering uses.
type Mechanisms struct {
	MountAPI   bool `json:"mount_api"`
	Openat2    bool `json:"openat2"`
	CloseRange bool `json:"close_range"`
	// CgroupClone has pid 1 born in its cgroup of version 2.
	CgroupClone bool `json:"clone_into_cgroup,omitempty"`
}

// Duration is a time.Duration that is "30s" in JSON.
type Duration time.Duration

// MarshalText gives "30s".
// String gives "30s".
func (d Duration) String() string { return time.Duration(d).String() }

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "30s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// The backends.
const (
	BackendNative   = "native"
	BackendBwrap    = "bwrap"
	BackendDocker   = "docker"
	BackendLandlock = "landlock"
	BackendNone     = "none"
)

// The names of the namespaces, in the order that plans list them.
const (
	User   = "user"
	Mount  = "mount"
	Pid    = "pid"
	Ipc    = "ipc"
	Uts    = "uts"
	Net    = "net"
	Cgroup = "cgroup"
)
