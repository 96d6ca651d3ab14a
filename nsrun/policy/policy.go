package policy

import (
	"cmp"
	"time"
)

// Policy is what one sandbox should be. Treat it as immutable: methods return changed copies.
type Policy struct {
	// Name names the policy in plans and results; the manifest's name.
	Name string `json:"name,omitempty"`
	// FS lists what is visible, in the order it is mounted: a later entry covers an earlier one.
	FS []FS `json:"fs,omitempty"`
	// Dir is the working directory inside. Empty means "/".
	Dir string `json:"dir,omitempty"`
	// HostEtc keeps the host's account and resolver files in /etc. The zero value replaces them by ones that name only the
	// sandbox's user; see plan.
	HostEtc bool `json:"host_etc,omitempty"`
	// Home is the home directory that the account files and HOME name. Empty means "/". What is there is an entry of FS: see [Policy.WithHome].
	Home string `json:"home,omitempty"`
	// KeepHome is the workspace, a directory of the host, whose kept home directory is the home. Empty means that none is kept.
	KeepHome string `json:"keep_home,omitempty"`
	// NoExec forbids running programs from every writable place, files in memory included.
	NoExec bool `json:"noexec,omitempty"`
	// Protect is what is done about places in writable grants that make the host run something. The zero value is ProtectReport.
	Protect Protect `json:"protect,omitempty"`
	// ProtectPaths are further such places of the host, absolute and clean: read-only where they exist, and compared.
	ProtectPaths []string `json:"protect_paths,omitempty"`
	// Env is the environment of the command.
	Env Env `json:"env"`
	// Network says what can be reached. The zero value is none.
	Network Network `json:"network,omitempty"`
	// Allow lists what can be reached by the network allow: see package netrule. Nothing can be if it is empty. No other network has any.
	Allow []string `json:"allow,omitempty"`
	// AllowMost are the rules of an operator's ceiling, if it has any: no rule that is added later, or by an answer, allows more. Nothing but a ceiling
	// sets it.
	AllowMost []string `json:"allow_most,omitempty"`
	// ProxyEnv has a proxy for HTTP and SOCKS5 on the loopback of the network allow, and sets the variables that name one: for programs that connect
	// to addresses which they have from elsewhere. It permits nothing more.
	ProxyEnv bool `json:"proxy_env,omitempty"`
	// Hostname is the name in the UTS namespace. Empty means "sandbox".
	Hostname string `json:"hostname,omitempty"`
	// UID and GID are the command's ids inside; nil keeps the caller's.
	UID *int `json:"uid,omitempty"`
	GID *int `json:"gid,omitempty"`
	// Limits are resource limits, at most one for each name of [LimitTable].
	Limits []Limit `json:"limits,omitempty"`
	// Seccomp says which system calls are left.
	Seccomp Seccomp `json:"seccomp"`
	// NoLandlock leaves Landlock out.
	NoLandlock bool `json:"no_landlock,omitempty"`
	// Timeout ends the run after that much wall-clock time. 0 means no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	// MaxProcessTime bounds what Timeout does not, a process of a session that is started to go on. 0 means no limit. It is a ceiling's Timeout.
	MaxProcessTime time.Duration `json:"max_process_time,omitempty"`
	// KillGrace is the time between the polite signal and the kill. 0 means [DefaultKillGrace].
	KillGrace time.Duration `json:"kill_grace,omitempty"`
	// Fallback says what to do with a wish that the host cannot enforce. The zero value refuses the run.
	Fallback Fallback `json:"fallback,omitempty"`
	// Backend is the backend that carries the policy out. The zero value is BackendAuto. To name one is to accept what it cannot carry.
	Backend Backend `json:"backend,omitempty"`
	// Isolation is how much of a sandbox there is. The zero value is Container, all of it.
	Isolation Isolation `json:"isolation,omitempty"`
	// Require lists guarantees that must hold whatever Fallback and Backend say: see plan for their names.
	Require []string `json:"require,omitempty"`
	// SelfTest has the sandbox try what must fail before the command is started, and refuses the start if anything succeeds.
	SelfTest bool `json:"self_test,omitempty"`
	// Explain is whether results report what was refused. The zero value is ExplainOff.
	Explain Explain `json:"explain,omitempty"`
	// Autonomy is what becomes of grants: see [AutonomyTable]. The zero value is Supervised.
	Autonomy Autonomy `json:"autonomy,omitempty"`
	// Commands names the rules for what command lines may run at all: built-in ones, or some of CommandRules. Empty means any. See package
	// commands.
	Commands string `json:"commands,omitempty"`
	// CommandRules are the user's own.
	CommandRules []CommandRules `json:"command_rules,omitempty"`
	// Audit lists files that get a row when a command starts and one when it has ended, absolute and clean: see the package audit. No
	// sandbox is shown them.
	Audit []string `json:"audit,omitempty"`
	// Labels are the caller's own words for those rows, such as its task and role: see [WithLabels].
	Labels []Var `json:"labels,omitempty"`
	// ManifestSHA256 is the hash of the manifest's file, if the policy was read from one, for those rows.
	ManifestSHA256 string `json:"manifest_sha256,omitempty"`
	// Tools names the presets that a front end has added: see the package tools. Each entry of FS that is one's has its name.
	Tools []string `json:"tools,omitempty"`
	// Notes are what the front end has to tell: grants cut, names dropped, words that change nothing.
	Notes []Note `json:"notes,omitempty"`
}

// CommandRules is a set of command lines that may run, by program.
type CommandRules struct {
	Name string `json:"name"`
	// Extends names built-in rules that count too, or empty.
	Extends  string    `json:"extends,omitempty"`
	Programs []Program `json:"programs,omitempty"`
}

// Program is a program, as PATH has it, and the shapes that its arguments may have.
type Program struct {
	Name   string   `json:"name"`
	Shapes []string `json:"shapes"`
}

// DefaultKillGrace is the time a command has between SIGTERM and SIGKILL when a policy does not say.
const DefaultKillGrace = 2 * time.Second

// Kind is what an FS entry puts into the view.
type Kind string

// The kinds of FS entries.
const (
	Bind    Kind = "bind"    // a file or directory of the host, with its submounts
	Socket  Kind = "socket"  // one Unix socket of the host
	Tmpfs   Kind = "tmpfs"   // an empty file system in memory
	Proc    Kind = "proc"    // a fresh procfs of the sandbox's own processes
	Dev     Kind = "dev"     // a minimal /dev
	Dir     Kind = "dir"     // an empty directory
	Symlink Kind = "symlink" // a symbolic link
	// Overlay shows a directory of the host, and keeps in memory what is written there. A backend that cannot do it shows nothing there.
	Overlay Kind = "overlay"
	File    Kind = "file" // a file with given content
)

// FS is one entry of the view. The zero access is read-only.
type FS struct {
	Kind Kind `json:"kind"`
	// Source is the host's path, absolute and clean (bind, socket, overlay), or a symlink's target.
	Source string `json:"source,omitempty"`
	// Dest is the path inside, absolute and clean.
	Dest string `json:"dest"`
	// Write makes it writable.
	Write bool `json:"write,omitempty"`
	// NoExec forbids running programs from it.
	NoExec bool `json:"noexec,omitempty"`
	// Force insists on a writable grant that is probably a mistake, such as the whole home directory.
	Force bool `json:"force,omitempty"`
	// Optional leaves the entry out, with a note, when the source does not exist.
	Optional bool `json:"optional,omitempty"`
	// Quiet leaves it out without a note: for the list of places that systems have or have not.
	Quiet bool `json:"quiet,omitempty"`
	// Directory refuses a source that is not one.
	Directory bool `json:"directory,omitempty"`
	// KeepLink shows a source that is a symlink as that symlink, not as what it points to.
	KeepLink bool `json:"keep_link,omitempty"`
	// NoFollow refuses a source that is reached through a symlink which a sandboxed program could have planted.
	NoFollow bool `json:"no_follow,omitempty"`
	// Within lists the host directories that the source must lie in after symlinks are resolved. Empty means anywhere.
	Within []string `json:"within,omitempty"`
	// SizeMB and Inodes bound a tmpfs. Without them it is a part of the one that all private places are in: see [TmpfsMB].
	SizeMB int64 `json:"size_mb,omitempty"`
	Inodes int64 `json:"inodes,omitempty"`
	// Data is the content of a file.
	Data []byte `json:"data,omitempty"`
	// Mode is the permission bits of a tmpfs, dir or file. 0 means 0755, or 0644 for a file.
	Mode uint32 `json:"mode,omitempty"`
	// System marks what every sandbox has, as [Default] gives it: it gives way to what is asked for at its place, and no
	// [Ceiling] cuts it.
	System bool `json:"system,omitempty"`
	// Tool names the preset that it comes from. It gives way to what is asked for at its place, and a [Ceiling] permits it by that name.
	Tool string `json:"tool,omitempty"`
	// Variable is the variable of the caller's that names the place of a preset: a [Ceiling] permits it as it does a grant, and it is passed only if the
	// place is shown.
	Variable string `json:"variable,omitempty"`
	// Found marks a place of a preset that was found at a workspace, and not named by the preset's row: a [Ceiling] permits it as it does a grant.
	Found bool `json:"found,omitempty"`
	// Agent says that a socket is an SSH agent's: the command reaches it through a filter, which passes what lists keys and what signs.
	Agent bool `json:"agent,omitempty"`
	// Why says which word of the front end asked for it; it prints in plans and errors.
	Why string `json:"why,omitempty"`
}

// Env is the environment, built from nothing.
type Env struct {
	// Pass names variables to take from the caller. Those of [BaseEnv] are always taken; names that look like secrets never are.
	Pass []string `json:"pass,omitempty"`
	// Set gives values, in order; a later one wins.
	Set []Var `json:"set,omitempty"`
	// All takes every variable of the caller, but for secrets, and for hooks that Pass does not name: see [Hook].
	All bool `json:"all,omitempty"`
}

// Var is one environment variable.
type Var struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Network is what a sandbox can reach.
type Network string

// The network modes. The empty Network is NetworkNone.
const (
	NetworkNone Network = "none" // an empty network namespace with loopback up
	NetworkHost Network = "host" // the host's network
	// NetworkAllow is a network of its own, from which what [Policy].Allow lists can be reached, and nothing else.
	NetworkAllow Network = "allow"
)

// Networks lists them.
var Networks = []Network{NetworkNone, NetworkHost, NetworkAllow}

// Own reports whether a sandbox has a network of its own, not the host's.
func (n Network) Own() bool { return n.Mode() != NetworkHost }

// Mode returns n with the zero value spelled out.
func (n Network) Mode() Network { return cmp.Or(n, NetworkNone) }

// Seccomp is what is left of the system call table.
type Seccomp struct {
	// Filter names a built-in filter. Empty means "default"; [SeccompOff] installs none.
	Filter string `json:"filter,omitempty"`
	// Deny names further system calls to refuse with EPERM.
	Deny []string `json:"deny,omitempty"`
	// Raw is a classic BPF program, 8 bytes an instruction in host byte order, installed beside the filter.
	Raw []byte `json:"raw,omitempty"`
}

// SeccompOff is the filter name that installs no filter.
const SeccompOff = "off"

// SeccompFilters lists the names that Filter may have: those of the package seccomp, and [SeccompOff].
var SeccompFilters = []string{"default", "compute", "network", "build", SeccompOff}

// Fallback says what happens to wishes that cannot be enforced.
type Fallback string

// The fallbacks. The empty Fallback is Strict.
const (
	Strict  Fallback = "strict"  // refuse the run
	Degrade Fallback = "degrade" // run without, and say so in a Note
)

// Fallbacks lists them.
var Fallbacks = []Fallback{Strict, Degrade}

// Backend names a backend.
type Backend string

// The backends. The empty Backend is BackendAuto.
const (
	BackendAuto     Backend = "auto"     // the strongest that works here: see plan
	BackendNative   Backend = "native"   // nsrun's own
	BackendBwrap    Backend = "bwrap"    // a bubblewrap found on PATH, with nsrun's own exec stages inside
	BackendDocker   Backend = "docker"   // a container of Docker's or Podman's, with nsrun's own exec stages inside
	BackendLandlock Backend = "landlock" // no namespaces: Landlock, seccomp, limits
	BackendNone     Backend = "none"     // no sandbox: limits, time and environment alone
)

// Backends lists them all.
var Backends = []Backend{BackendAuto, BackendNative, BackendBwrap, BackendDocker, BackendLandlock, BackendNone}

// Isolation is a level of containment, for callers who think in levels.
type Isolation string

// The levels. The empty Isolation is Container.
const (
	Container  Isolation = "container"  // the whole sandbox
	Subprocess Isolation = "subprocess" // a process group of its own, limits, time, and the environment of the policy; no sandbox
	Permissive Isolation = "permissive" // the command as the caller would run it; only its time is bounded
)

// Isolations lists them, the closest first.
var Isolations = []Isolation{Container, Subprocess, Permissive}

// Level returns i with the zero value spelled out.
func (i Isolation) Level() Isolation { return cmp.Or(i, Container) }

// Note is one thing that is not as asked.
type Note struct {
	Feature string `json:"feature"`         // what it is about: a guarantee, a feature of hosts, a limit, or a part of the policy
	Loss    string `json:"loss"`            // what is not as asked
	Found   string `json:"found,omitempty"` // what a probe found here
	Fix     string `json:"fix,omitempty"`   // one action that helps
}

// String gives "feature: loss; found: what (fix)".
func (n Note) String() string {
	text := n.Feature + ": " + n.Loss
	if n.Found != "" {
		text += "; found: " + n.Found
	}
	if n.Fix != "" {
		text += " (" + n.Fix + ")"
	}
	return text
}
