package verify

// Runner is who runs a stage.
type Runner uint16

// The runners. The first four are processes that nsrun forks; the next three start a command.
const (
	Pid1            Runner = 1 << iota // pid 1 of a sandbox for one command
	Server                             // pid 1 of a session
	Subreaper                          // the process beside a command that has no pid namespace
	SubreaperServer                    // likewise, of a session
	Command                            // a child of pid 1 that becomes the command
	Bare                               // a child of a subreaper: Landlock is the wall
	Unconfined                         // likewise, of the backend none: limits and time alone
	Request                            // a command of a session: what is the same for all

	pid1s      = Pid1 | Server
	subreapers = Subreaper | SubreaperServer
	servers    = Server | SubreaperServer
)

// Stage is one row of a table of stages.
type Stage struct {
	ID  StageID
	By  Runner
	Why string // why it is there, and there
}

// StageID names a stage.
type StageID uint8

// The stages, in alphabetical order.
const (
	AwaitChildren StageID = iota
	Become
	Capabilities
	Cgroup
	ClearArguments
	CloseInherited
	CloseRest
	CommandUsers
	DeathSignal
	Directory
	End
	Exec
	Handlers
	HostName
	InotifyInstances
	Keyring
	KillScope
	Landlock
	Limits
	Loopback
	Maps
	Mask
	MaxUsers
	NoNewPrivs
	NotDumpable
	OpenFiles
	Output
	PidMax
	Ready
	Report
	Restrict
	Root
	Ruleset
	Seccomp
	SelfTest
	Serve
	Session
	Spawn
	StandardFiles
	SubreaperStage
	Terminal
	Unblock
	UserNamespace
	Watcher
)

var stageNames = [...]string{"await children", "become init", "capabilities", "cgroup", "clear arguments", "close inherited", "close rest", "command's users",
	"death signal", "directory", "end", "exec", "handlers", "hostname", "inotify instances", "keyring", "kill scope", "landlock", "limits", "loopback", "id maps",
	"mask", "no nested users", "no new privileges", "not dumpable", "open files", "output", "pid_max", "ready", "report", "restrict", "root", "ruleset", "seccomp",
	"self-test", "serve", "session", "spawn", "standard files", "subreaper", "terminal", "unblock", "user namespace", "watcher"}

// String returns the stage's name.
func (s StageID) String() string { return stageNames[s] }

// Init is what a process does that holds a sandbox together, from its first call to its last.
var Init = [...]Stage{
	{DeathSignal, pid1s, "first of all: nothing outlives the caller"},
	{Session, subreapers, "a terminal's signals are the caller's to pass on"},
	{Cgroup, Pid1 | subreapers | Server, "before there is anything to count"},
	{Output, Pid1 | Subreaper, "pipes of nsrun's own, before everything else is closed"},
	{CloseInherited, Pid1 | subreapers | Server, "CVE-2024-21626; from here on the caller's end shows as the end of the socket"},
	{Report, Pid1, "early, so that the answer is there when the command waits for it"},
	{SubreaperStage, subreapers, "what the command leaves behind is adopted, and killed"},
	{Maps, pid1s, "setgroups before gid_map: CVE-2014-8989"},
	{MaxUsers, pid1s, "while /proc/sys can be written; the command's own namespace is the last one"},
	{InotifyInstances, pid1s, "while /proc/sys can be written; those of the host's user are not used up"},
	{PidMax, pid1s, "while /proc/sys can be written"},
	{Loopback, pid1s, "while pid 1 has its capabilities"},
	{HostName, pid1s, "while pid 1 has its capabilities"},
	{ClearArguments, pid1s, "before there is a procfs that shows them"},
	{NoNewPrivs, subreapers, "Landlock requires it"},
	{KillScope, subreapers, "before there is anything to kill"},
	{Root, pid1s, "from here on the host is out of reach"},
	{AwaitChildren, subreapers, "before there is a child"},
	{Watcher, Subreaper | SubreaperServer, "before there is a command that could wear the subreaper out"},
	{Terminal, Pid1, "on the sandbox's own devpts"},
	{SelfTest, Pid1 | subreapers | Server, "before there is a command"},
	{CommandUsers, Server, "while pid 1 has the capability to map uid 0 onward (Linux 5.12)"},
	{NoNewPrivs, Server, "the supervisors' Landlock domain requires it"},
	{Ruleset, servers, "built once, enforced on every command"},
	{Capabilities, Server, "not before the namespace that all commands enter is made"},
	{NotDumpable, servers, "not before the maps are written: /proc/self/uid_map would be root's (proc_pid(5))"},
	{AwaitChildren, Server, "before there is a child"},
	{Handlers, servers, "once for all commands"},
	{StandardFiles, servers, "nothing else gets their numbers; a message reports to the caller that all is ready"},
	{Serve, servers, "until the caller closes the session, or has ended"},
	{Spawn, Pid1 | Subreaper, "the command's process"},
	{Become, Pid1 | Subreaper, "holds nothing that the command could want, and waits"},
	{End, SubreaperServer, "kills the processes that remain"},
}

// Confinement is what a command's process does before it executes the command. Each stage takes away what the ones before it need.
var Confinement = [...]Stage{
	{DeathSignal, Bare | Unconfined, "no pid namespace ends with the subreaper"},
	{Session, Command | Bare | Unconfined, "no controlling terminal to push input into: CVE-2017-5226"},
	{CloseInherited, Command | Bare | Unconfined, "0, 1, 2 and the channels, which exec closes: CVE-2024-21626"},
	{UserNamespace, Command, "it owns nothing: neither the mounts nor pid 1"},
	{Directory, Command | Bare | Unconfined, "by path inside: CVE-2024-21626"},
	{Limits, Command | Bare | Unconfined | Request, "while none of the sandbox's own stages can run into them"},
	{Keyring, Command | Bare | Request, "not the caller's session keyring"},
	{Handlers, Command | Bare, "nothing that the caller ignores stays ignored"},
	{Mask, Command | Bare | Request, "nothing that is blocked stays blocked; the usual umask"},
	{Unblock, Unconfined, "what a subreaper has blocked"},
	{Capabilities, Command | Bare | Request, "none, in none of the five sets"},
	{Ready, Command | Bare | Unconfined, "the caller has done all it must before there is a command"},
	{NotDumpable, Command | Bare | Request, "the memory is pid 1's, too, until exec: nobody looks into it from here on; CVE-2019-5736"},
	{NoNewPrivs, Command | Bare, "set-uid programs stay powerless; Landlock and seccomp require it"},
	{Landlock, Command | Bare, "the second lock on files"},
	{Restrict, Request, "the second lock on files, prepared by the server"},
	{CloseRest, Request, "what exec would close, so that nothing depends on that"},
	{OpenFiles, Command | Bare | Unconfined | Request, "when the last descriptor has been opened"},
	{Seccomp, Command | Bare | Request, "last, because it refuses most of the above"},
	{Exec, Command | Bare | Unconfined, "the command"},
}
