package verify

// Runner is a kind of process that runs stages, as a bit.
type Runner uint32

// The runners. Those up to Watchdog hold a sandbox together. The others confine themselves. Those up to CompatTail then execute a command;
// the testers make calls that must fail.
const (
	Pid1            Runner = 1 << iota // pid 1 of a sandbox for one command
	Server                             // pid 1 of a session
	Subreaper                          // the parent of a command without a pid namespace
	SubreaperServer                    // likewise, of a session
	Supervisor                         // the process of a session that waits for one command
	Compat                             // pid 1 in compat mode
	Watchdog                           // the process beside a real bubblewrap

	Command       // a child of pid 1
	Bare          // a child of a subreaper: Landlock confines it
	Unconfined    // likewise, of the backend none: limits and time bound it, nothing else
	Request       // a command of a session: the stages that come with the request
	Shared        // likewise: the stages that are the same for all commands
	Remote        // nsrun inside a real bubblewrap
	Container     // a child of nsrun as pid 1 of a container
	CompatCommand // a command in compat mode
	CompatTail    // likewise, once its working directory is known

	Tester        // a process of the self-test
	ForeignTester // likewise, for the call of another architecture, which kills the process

	pid1s      = Pid1 | Server
	subreapers = Subreaper | SubreaperServer
	servers    = Server | SubreaperServer
	own        = Command | Bare | Unconfined // those that nsrun starts from its own pid 1 or subreaper
	confined   = Command | Bare | Remote | Container
)

// Stage is one row of a table of stages.
type Stage struct {
	ID  StageID
	By  Runner
	Why string // why the stage exists, and why it stands there
}

// StageID identifies a stage.
type StageID uint8

// The stages, in alphabetical order.
const (
	Allow StageID = iota
	AmbientCaps
	Announce
	AssertNoUsers
	AwaitChildren
	Become
	Block
	BoundingSet
	Capabilities
	Cgroup
	ClearArguments
	ClearUmask
	CloseAll
	CloseConsumed
	CloseInherited
	CloseRest
	CloseTheirs
	CommandUsers
	DeathSignal
	DieWithSubreaper
	DieWithWaiter
	Directory
	End
	EnterNamespaces
	EnterUsers
	Exec
	ExecLabel
	FileLabel
	Files
	FirstMaps
	Grants
	Handlers
	Handshake
	HostName
	HostNames
	Ignored
	InotifyInstances
	KeepCaps
	Keyring
	KillScope
	Landlock
	Limits
	Listen
	Loopback
	Maps
	Mask
	MaxUsers
	NewSession
	NoCapabilities
	NoNewPrivs
	NotDumpable
	OpenFiles
	OpenProc
	Output
	OwnNull
	OwnSession
	PidMax
	RawFilters
	Ready
	RenewDeathSignal
	Report
	RestoreUmask
	Restrict
	Root
	Ruleset
	Seccomp
	SecondUsers
	SelfTest
	Serve
	Session
	Spawn
	StandardFiles
	SubreaperStage
	SupervisorScope
	SwitchIDs
	Terminal
	Unblock
	UnblockChild
	UserNamespace
	Waiter
	Watcher
	WorkingDirectory
	numStages
)

var stageNames = [numStages]string{
	"allow-list", "ambient capabilities", "announce", "assert no users", "await children", "become init", "block", "bounding set", "capabilities", "cgroup",
	"clear arguments", "clear umask", "close all", "close consumed", "close inherited", "close rest", "close the caller's", "command's users", "death signal",
	"die with subreaper", "die with waiter", "directory", "end", "enter namespaces", "enter users", "exec", "exec label", "file label", "files", "first id maps",
	"grants", "handlers", "handshake", "hostname", "hostnames", "ignored signals", "inotify instances", "keep capabilities", "keyring", "kill scope", "landlock",
	"limits", "listener", "loopback", "id maps", "mask", "no nested users", "new session", "no capabilities", "no new privileges", "not dumpable", "open files", "open proc", "output",
	"own /dev/null", "own session", "pid_max", "raw filters", "ready", "renew death signal", "report", "restore umask", "restrict", "root", "ruleset", "seccomp",
	"second users", "self-test", "serve", "session", "spawn", "standard files", "subreaper", "supervisor's scope", "switch ids", "terminal", "unblock",
	"unblock SIGCHLD", "user namespace", "waiter", "watcher", "working directory"}

// String returns the stage's name.
func (s StageID) String() string { return stageNames[s] }

// Init is what a process that holds a sandbox together does, from its first call to its last. The stages of Compat are in bubblewrap's
// order, because its errors depend on that order, and so does what its callers may do in between.
var Init = [...]Stage{
	{EnterNamespaces, Compat, "those that were given by descriptor"},
	{DeathSignal, pid1s | Compat, "first of all: nothing outlives the caller"},
	{CloseTheirs, Compat, "or the channels never end"},
	{Ignored, Compat, "the caller's, which Go's runtime has taken over"},
	{Handshake, Compat, "the caller has reported to whom it wanted to"},
	{OwnSession, subreapers | Watchdog, "a terminal's signals are the caller's to pass on"},
	{Cgroup, pid1s | subreapers, "before there is anything to count"},
	{Output, Pid1 | Subreaper, "pipes of nsrun's own, before everything else is closed"},
	{CloseInherited, pid1s | subreapers | Watchdog, "CVE-2024-21626; from here on the caller's end shows as the end of the socket"},
	{Report, Pid1 | Compat, "early, so that the answer is there when the command waits for it; not where the death signal has to be renewed"},
	{SubreaperStage, subreapers | Supervisor, "what the command leaves behind is adopted, and killed"},
	{SupervisorScope, Supervisor, "a kill of all processes reaches this command's alone"},
	{NoNewPrivs, Server | subreapers | Compat, "Landlock requires it, of a server for its supervisors"},
	{KillScope, subreapers, "before there is anything to kill"},
	{BoundingSet, Compat, "a new user namespace has given all of it back"},
	{SwitchIDs, Compat, "in a user namespace that was given"},
	{Maps, pid1s, "setgroups before gid_map: CVE-2014-8989"},
	{MaxUsers, pid1s, "while /proc/sys can be written; the command's own namespace is the last one"},
	{InotifyInstances, pid1s, "while /proc/sys can be written; those of the host's user are not used up"},
	{PidMax, pid1s, "while /proc/sys can be written"},
	{Loopback, pid1s | Compat, "while pid 1 has its capabilities"},
	{Allow, pid1s, "once the loopback is up, and before there is a command"},
	{HostName, pid1s, "while pid 1 has its capabilities"},
	{ClearArguments, pid1s, "before there is a procfs that shows them"},
	{OpenProc, Compat, "to be reached after the root has changed"},
	{FirstMaps, Compat, "setgroups before gid_map: CVE-2014-8989"},
	{ClearUmask, Compat, "modes are what the options say"},
	{FileLabel, Compat, "before files are made"},
	{Root, pid1s | Compat, "from here on the host is out of reach"},
	{Grants, subreapers, "looked up for the rules that the command gets; no system call of this process"},
	{AwaitChildren, Server | subreapers | Watchdog, "before there is a child"},
	{Watcher, subreapers, "before there is a command that could wear the subreaper out"},
	{Terminal, Pid1, "on the sandbox's own devpts"},
	{SelfTest, pid1s | subreapers, "before there is a command"},
	{CommandUsers, Server, "while pid 1 has the capability to map uid 0 onward (Linux 5.12)"},
	{Ruleset, servers, "built once, enforced on every command"},
	{HostNames, Compat, "while pid 1 has its capabilities"},
	{SecondUsers, Compat, "one that does not own the mounts"},
	{AssertNoUsers, Compat, "after the last one is made"},
	{KeepCaps, Compat, "no more than was asked for"},
	{RenewDeathSignal, Compat, "what changes credentials forgets it (commit_creds in kernel/cred.c); the thread that answers now has lived on with it in place"},
	{Ready, Compat, "the caller lives, and holds no privileges any more"},
	{Block, Compat, "until the caller writes"},
	{RestoreUmask, Compat, "the command has the caller's"},
	{NewSession, Compat, "no controlling terminal to push input into, where asked for: CVE-2017-5226"},
	{Spawn, Pid1 | Subreaper | Watchdog, "the command's process"},
	{NoCapabilities, pid1s, "not before the user namespace of the commands is made, which can map uid 0 only for a parent with CAP_SETFCAP (Linux 5.12)"},
	{NotDumpable, servers, "not before the maps are written: /proc/self/uid_map would be root's (proc_pid(5))"},
	{Handlers, servers, "once for all commands"},
	{StandardFiles, servers, "nothing else gets their numbers; a message reports to the caller that all is ready"},
	{Serve, servers, "until the caller closes the session, or has ended"},
	{Become, Pid1 | Subreaper | Watchdog, "holds nothing that the command could want, and waits"},
	{Waiter, Compat, "starts the command and waits for it, or becomes it"},
	{End, SubreaperServer, "kills the processes that remain"},
}

// Confinement is what a command's process does before it executes the command. Each stage takes away something that the stages before it
// needed.
var Confinement = [...]Stage{
	{DieWithSubreaper, Bare | Unconfined, "no pid namespace ends with the subreaper"},
	{Session, own | Request | Remote | Container, "no controlling terminal to push input into: CVE-2017-5226"},
	{CloseConsumed, CompatCommand, "descriptors that options have used"},
	{DieWithWaiter, CompatCommand, "a forked process has no death signal yet; one that was not forked has that of the set-up"},
	{CloseAll, own | Container, "all but 0, 1, 2 and the channels, which exec closes: CVE-2024-21626"},
	{Files, Request, "those of the request, or a terminal of its own"},
	{OwnNull, own | Remote | Container, "a descriptor of the host's /dev/null is enough for root to change its mode"},
	{SelfTest, Remote | Container, "before there is a command"},
	{UserNamespace, Command, "it owns nothing: neither the mounts nor pid 1"},
	{EnterUsers, Request, "the one that the server has made for all commands"},
	{Directory, own | Request | Remote | Container, "by path inside: CVE-2024-21626"},
	{Limits, own | Shared | Remote | Container | CompatCommand, "while none of the sandbox's own stages can run into them"},
	{Keyring, confined | Shared, "not the caller's session keyring"},
	{Handlers, confined, "nothing that the caller ignores stays ignored"},
	{Mask, confined | Shared, "nothing that is blocked stays blocked; the usual umask"},
	{Unblock, Unconfined, "what a subreaper has blocked"},
	{UnblockChild, CompatCommand, "the caller's mask is the command's but for SIGCHLD"},
	{Capabilities, Command | Bare | Shared | Container | Tester, "none, in none of the five sets"},
	{Ready, own, "the caller has done all it must before there is a command"},
	{NoNewPrivs, confined | Tester | ForeignTester, "set-uid programs stay powerless; Landlock and seccomp require it"},
	{ExecLabel, CompatCommand, "where asked for"},
	{WorkingDirectory, CompatCommand, "the first that is there, named in PWD"},
	{AmbientCaps, CompatTail, "those that were asked for survive exec"},
	{NotDumpable, Command | Bare | Shared | CompatTail, "the memory is pid 1's, too, until exec: nobody looks into it from here on; CVE-2019-5736. As bwrap where pid 1 has no filter yet, or the command has layers"},
	{Landlock, confined | Tester | CompatTail, "files, independent of the mounts: a mistake in one is no way out"},
	{Restrict, Shared, "the same, by the ruleset that the server has built"},
	{CloseRest, Shared, "what exec would close, so that nothing depends on that; in a plan that explains 3 stays, which the listener is sent over"},
	{OpenFiles, own | Shared | Remote | Container | CompatTail, "when the last descriptor has been opened"},
	{Seccomp, Container | Tester | ForeignTester | CompatTail, "last, because it refuses most of the above"},
	{Listen, Command | Bare | Shared | Remote, "the same; in a plan that explains, by a filter that asks nsrun where the others refuse"},
	{RawFilters, CompatTail, "the caller's, by prctl: an earlier one may allow no other way"},
	{Announce, CompatTail, "a process that a filter kills here has not been executed, though the report channel ends"},
	{Exec, own | Request | Remote | Container | CompatTail, "the command"},
}
