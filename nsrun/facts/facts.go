// Package facts says what a host can do. [Facts] has an answer for each feature of a kernel and host, such as Landlock or user namespaces.
// Package probe fills it in, nsrun doctor prints it, and plans are compiled for it. [Table] has a row for each feature: what a sandbox lacks
// without it, and what to do about that.
//
//	if f.State(facts.Landlock) == facts.No { fmt.Println(f.Fix(facts.Landlock)) }
//
// Facts are plain data, and nothing reads them from a global variable: to plan for another host, take that host's facts as JSON.
//
// Facts protect nothing, and may be wrong. A plan that rests on a wrong fact fails when the sandbox is made.
package facts

import (
	"maps"
	"slices"
	"strings"
)

// Name is the name of a feature.
type Name string

// State is what a probe found out.
type State string

// The states. A feature that nobody asked about is Unknown: plans then try it, and the start tells.
const (
	Yes     State = "yes"
	No      State = "no"
	Unknown State = "unknown"
)

// Answer is what is known of one feature.
type Answer struct {
	State State `json:"state"`
	// Detail is what the kernel or a file said, when State is not Yes, or a version.
	Detail string `json:"detail,omitempty"`
	// Fix is the one action that changes a No here, if the probe could tell causes apart. Empty means the table's.
	Fix string `json:"fix,omitempty"`
}

// Facts is what is known of one host and caller.
type Facts struct {
	Kernel      string `json:"kernel"` // release, as uname(2) gives it; for people, nothing is decided by it
	Arch        string `json:"arch"`   // amd64 or arm64
	UID         int    `json:"uid"`
	GID         int    `json:"gid"`
	LastCap     int    `json:"last_cap"`     // highest capability that the kernel knows
	LandlockABI int    `json:"landlock_abi"` // 0 without Landlock
	// LandlockErrata has bit n-1 set where erratum n of that ABI is fixed. It is 0 where the kernel cannot tell.
	LandlockErrata int `json:"landlock_errata,omitempty"`
	// LandlockRefused names the rights of that ABI which the kernel refuses all the same: a ruleset must leave them out.
	LandlockRefused []string `json:"landlock_refused,omitempty"`
	Distro          Distro   `json:"distro,omitzero"`
	// Surroundings are words for what the caller is in: docker, podman, kubernetes, lxc, container, wsl1, wsl2, wsl2-mirrored (in that
	// networking mode), gvisor, chroot, and overmounted: below a mount over its root.
	Surroundings []string `json:"surroundings,omitempty"`
	// Groups are the places where the caller can make a control group for a sandbox, the best first.
	Groups []Group `json:"cgroups,omitempty"`
	// PidMaxLeast is the lowest kernel.pid_max that the kernel takes; 0 if nobody knows.
	PidMaxLeast int `json:"pid_max_least,omitempty"`
	// Manager is the service manager that can be asked for one more place, if Groups has none of version 2.
	Manager *Manager `json:"manager,omitempty"`
	// Program is the running nsrun.
	Program Program `json:"program,omitzero"`
	// ListenerKillable says that a call which waits for a seccomp listener is not interrupted by signals (Linux 5.19).
	ListenerKillable bool `json:"listener_killable,omitempty"`
	// MemoryMB is what the host has, in MiB; 0 if nobody knows.
	MemoryMB int64           `json:"memory_mb,omitempty"`
	Answers  map[Name]Answer `json:"features"`
}

// Group is a directory of a cgroup tree that the caller can make groups in.
type Group struct {
	Version     int      `json:"version"` // 1 or 2
	Dir         string   `json:"dir"`
	Controllers []string `json:"controllers"` // that those groups can have, of memory, pids, cpu, io
	// Enable lists those of version 2 that have to be enabled for the directory's children first.
	Enable []string `json:"enable,omitempty"`
	// Leave says that nsrun's own process, the only one there, has to leave the directory before that.
	Leave bool `json:"leave,omitempty"`
}

// Manager is a service manager of systemd's, to which the caller may connect as far as its socket's mode says.
type Manager struct {
	Socket string `json:"socket"`
	Bus    bool   `json:"bus,omitempty"` // it is that of a bus, not the manager's own
	Tree   string `json:"tree"`          // where all of the cgroup tree of version 2 is mounted
	// Controllers are those that a scope can have, of memory, pids, cpu, as far as files tell.
	Controllers []string `json:"controllers"`
	// Refused is why a scope was not to be had when it was asked for one.
	Refused string `json:"refused,omitempty"`
}

// Distro is a distribution as os-release(5) describes it.
type Distro struct {
	ID   string   `json:"id,omitempty"`
	Like []string `json:"like,omitempty"` // ids of those it is made from, the nearest one first
	Name string   `json:"name,omitempty"` // with its version, for people
}

// State returns what is known of a feature.
func (f Facts) State(name Name) State {
	if a, ok := f.Answers[name]; ok {
		return a.State
	}
	return Unknown
}

// Can reports whether a plan may count on the feature: it is there, or nobody could tell and the start will.
func (f Facts) Can(name Name) bool { return f.State(name) != No }

// Fix returns the action that brings a missing feature: the probe's if it knew the cause, else the table's for this distribution or one
// that it is like, else the table's. A kernel is another one by other means in some surroundings.
func (f Facts) Fix(name Name) string {
	fix := f.Answers[name].Fix
	if fix == "" {
		fix = f.tabled(name)
	}
	switch kernel := strings.HasPrefix(fix, "use a kernel"); {
	case kernel && f.In("gvisor"):
		return "start the container by another runtime than gVisor's runsc, which is its kernel"
	case kernel && f.InContainer(), strings.Contains(fix, "lsm=") && f.InContainer():
		return "on the host: " + fix
	case kernel && f.In("wsl2"):
		return "wsl --update, in Windows"
	}
	return fix
}

// In reports whether the caller is in one of the surroundings.
func (f Facts) In(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(f.Surroundings, w) })
}

// InContainer reports whether the kernel is somebody else's to set up.
func (f Facts) InContainer() bool { return f.In("docker", "podman", "kubernetes", "lxc", "container") }

func (f Facts) tabled(name Name) string {
	row, _ := Lookup(name)
	for _, id := range append([]string{f.Distro.ID}, f.Distro.Like...) {
		for _, on := range row.On {
			if id != "" && on.Distro == id {
				return on.Fix
			}
		}
	}
	return row.Fix
}

// With returns a copy of f in which feature name has answer a.
func (f Facts) With(name Name, a Answer) Facts {
	answers := maps.Clone(f.Answers)
	if answers == nil {
		answers = map[Name]Answer{}
	}
	answers[name] = a
	f.Answers = answers
	return f
}

// Lookup finds a feature's row.
func Lookup(name Name) (Feature, bool) {
	i := slices.IndexFunc(Table[:], func(row Feature) bool { return row.Name == name })
	if i < 0 {
		return Feature{}, false
	}
	return Table[i], true
}
