package bwrap

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// option is one row of the table: how an option is written, what it is for, and what it does to the plan.
type option struct {
	name     string
	operands []string
	help     string
	// wording is how a missing operand is called, if not as usual.
	wording string
	// modifier says that a pending --perms or --size waits for the option after this one.
	modifier bool

	// What it does: the first of these that is there. All are plain data, so that the table costs a start nothing.
	flag      func(*parser) *bool // is switched on
	namespace string              // is made anew
	fd        func(*parser) **int // the descriptor that is named, of which there is one
	id        func(*parser) **int // the user or group id
	kind      mounts.Kind         // what act makes
	act       func(*parser, option, []string) error
}

// The words that options take; those of paths must not be empty.
var (
	paths      = []string{"SRC", "DEST", "DIR", "RWSRC", "WORKDIR", "PATH"}
	fdWord     = []string{"FD"}
	destWord   = []string{"DEST"}
	labelWord  = []string{"LABEL"}
	capWord    = []string{"CAP"}
	sourceDest = []string{"SRC", "DEST"}
	fdDest     = []string{"FD", "DEST"}
)

const (
	layerOption = "--overlay-src"
	debugOption = "--debug-opt="
	one         = "%s takes one argument"
)

// options is bubblewrap's command line, in the order of its usage text.
var options = [...]option{
	{name: "--help", help: "Show this text and stop", act: (*parser).help},
	{name: "--version", help: "Show the version and stop", act: (*parser).version},
	{name: "--args", operands: fdWord, help: "Read more options from FD, each ended by NUL", act: (*parser).file},
	{name: "--argv0", operands: []string{"VALUE"}, help: "Give the command VALUE as its argv[0]", wording: one, act: (*parser).argv0},
	{name: "--level-prefix", help: "Begin messages with their level, as in <3>", flag: func(p *parser) *bool { return &p.bw.LevelPrefix }},
	{name: "--unshare-all", help: "Make every kind of namespace anew, as far as possible", act: (*parser).unshareAll},
	{name: "--share-net", help: "Stay in the host's network after all", act: (*parser).shareNet},
	{name: "--unshare-user", help: "Make a user namespace (ordinary users get one anyway)", namespace: plan.User},
	{name: "--unshare-user-try", help: "Make a user namespace where that is possible", flag: func(p *parser) *bool { return &p.tryUser }},
	{name: "--unshare-ipc", help: "Make an IPC namespace", namespace: plan.Ipc},
	{name: "--unshare-pid", help: "Make a process namespace", namespace: plan.Pid},
	{name: "--unshare-net", help: "Make a network namespace, with a loopback of its own", namespace: plan.Net},
	{name: "--unshare-uts", help: "Make a host name namespace", namespace: plan.Uts},
	{name: "--unshare-cgroup", help: "Make a cgroup namespace", namespace: plan.Cgroup},
	{name: "--unshare-cgroup-try", help: "Make a cgroup namespace where that is possible", flag: func(p *parser) *bool { return &p.tryCgroup }},
	{name: "--userns", operands: fdWord, help: "Join the user namespace at FD (not with --unshare-user)", fd: func(p *parser) **int { return &p.bw.Users.FD }},
	{name: "--userns2", operands: fdWord, help: "Join the user namespace at FD once all is mounted", fd: func(p *parser) **int { return &p.bw.Users.FD2 }},
	{name: "--disable-userns", help: "Let nothing inside make a user namespace", flag: func(p *parser) *bool { return &p.bw.Users.Disable }},
	{name: "--assert-userns-disabled", help: "Stop if a user namespace could be made inside", flag: func(p *parser) *bool { return &p.bw.Users.Assert }},
	{name: "--pidns", operands: fdWord, help: "Join the process namespace at FD (the parent one with --unshare-pid)", fd: func(p *parser) **int { return &p.bw.PidnsFD }},
	{name: "--uid", operands: []string{"UID"}, help: "User id inside (needs a user namespace)", id: func(p *parser) **int { return &p.uid }},
	{name: "--gid", operands: []string{"GID"}, help: "Group id inside (needs a user namespace)", id: func(p *parser) **int { return &p.gid }},
	{name: "--hostname", operands: []string{"NAME"}, help: "Host name inside (needs --unshare-uts)", act: (*parser).setHostname},
	{name: "--chdir", operands: []string{"DIR"}, help: "Start the command in DIR", wording: one, act: (*parser).chdir},
	{name: "--clearenv", help: "Empty the environment", act: (*parser).clearenv},
	{name: "--setenv", operands: []string{"VAR", "VALUE"}, help: "Put a variable into the environment", act: (*parser).setenv},
	{name: "--unsetenv", operands: []string{"VAR"}, help: "Take a variable out of the environment", act: (*parser).unsetenv},
	{name: "--lock-file", operands: destWord, help: "Hold a lock on DEST while the sandbox runs", act: (*parser).lockFile},
	{name: "--sync-fd", operands: fdWord, help: "Hold FD open while the sandbox runs", act: (*parser).syncFD},
	{name: "--bind", operands: sourceDest, help: "Show the host's SRC at DEST", act: (*parser).bind},
	{name: "--bind-try", operands: sourceDest, help: "The same, if SRC exists", act: (*parser).bind},
	{name: "--dev-bind", operands: sourceDest, help: "Show the host's SRC at DEST, devices and all", act: (*parser).bind},
	{name: "--dev-bind-try", operands: sourceDest, help: "The same, if SRC exists", act: (*parser).bind},
	{name: "--ro-bind", operands: sourceDest, help: "Show the host's SRC at DEST, to be read only", act: (*parser).bind},
	{name: "--ro-bind-try", operands: sourceDest, help: "The same, if SRC exists", act: (*parser).bind},
	{name: "--bind-fd", operands: fdDest, help: "Show what is open at FD at DEST", wording: "--bind-fd takes two arguments", act: (*parser).bindFD},
	{name: "--ro-bind-fd", operands: fdDest, help: "Show what is open at FD at DEST, to be read only", wording: "--bind-fd takes two arguments", act: (*parser).bindFD},
	{name: "--remount-ro", operands: destWord, help: "Make the mount at DEST, and that alone, read-only", wording: one, act: (*parser).remount},
	{name: layerOption, operands: []string{"SRC"}, help: "Put SRC as a layer on top for the next overlay", act: (*parser).layer},
	{name: "--overlay", operands: []string{"RWSRC", "WORKDIR", "DEST"}, help: "Stack the layers at DEST; writes go to RWSRC, by way of WORKDIR,\nwhich is empty and on the same file system", act: (*parser).overlay},
	{name: "--tmp-overlay", operands: destWord, help: "Stack the layers at DEST; writes go to memory", act: (*parser).overlay},
	{name: "--ro-overlay", operands: destWord, help: "Stack the layers at DEST, to be read only", act: (*parser).overlay},
	{name: "--exec-label", operands: labelWord, help: "SELinux context of the command", act: (*parser).setLabel},
	{name: "--file-label", operands: labelWord, help: "SELinux context of what the sandbox makes", act: (*parser).setLabel},
	{name: "--proc", operands: destWord, help: "Put a procfs at DEST", kind: mounts.Proc, act: (*parser).fileSystem},
	{name: "--dev", operands: destWord, help: "Put a minimal /dev at DEST", kind: mounts.Dev, act: (*parser).fileSystem},
	{name: "--tmpfs", operands: destWord, help: "Put an empty file system in memory at DEST", kind: mounts.Tmpfs, act: (*parser).fileSystem},
	{name: "--mqueue", operands: destWord, help: "Put the message queues at DEST", kind: mounts.Mqueue, act: (*parser).fileSystem},
	{name: "--dir", operands: destWord, help: "Make a directory at DEST", kind: mounts.Dir, act: (*parser).fileSystem},
	{name: "--file", operands: fdDest, help: "Copy FD to a file at DEST", kind: mounts.File, act: (*parser).content},
	{name: "--bind-data", operands: fdDest, help: "Copy FD to a nameless file and show it at DEST", kind: mounts.Data, act: (*parser).content},
	{name: "--ro-bind-data", operands: fdDest, help: "The same, to be read only", kind: mounts.Data, act: (*parser).content},
	{name: "--symlink", operands: sourceDest, help: "Make a symbolic link at DEST that says SRC", act: (*parser).symlink},
	{name: "--seccomp", operands: fdWord, help: "Confine the command by the filter in FD (the last one counts)", act: (*parser).seccomp},
	{name: "--add-seccomp-fd", operands: fdWord, help: "Confine the command by the filter in FD (each one counts)", act: (*parser).addSeccomp},
	{name: "--block-fd", operands: fdWord, help: "Start the command once FD can be read", fd: func(p *parser) **int { return &p.bw.BlockFD }},
	{name: "--userns-block-fd", operands: fdWord, help: "Wait for FD while another maps the ids", fd: func(p *parser) **int { return &p.bw.UsernsBlockFD }},
	{name: "--info-fd", operands: fdWord, help: "Tell FD about the sandbox, in JSON", fd: func(p *parser) **int { return &p.bw.InfoFD }},
	{name: "--json-status-fd", operands: fdWord, help: "Tell FD about start and end, in one JSON document each", fd: func(p *parser) **int { return &p.bw.StatusFD }},
	{name: "--new-session", help: "Start a terminal session, without the caller's terminal", flag: func(p *parser) *bool { return &p.bw.NewSession }},
	{name: "--die-with-parent", help: "Kill the command when bwrap or its parent ends", flag: func(p *parser) *bool { return &p.bw.DieWithParent }},
	{name: "--as-pid-1", help: "Let the command be process 1 itself", flag: func(p *parser) *bool { return &p.bw.AsPid1 }},
	{name: "--cap-add", operands: capWord, help: "Let the command have the capability CAP", act: (*parser).capability},
	{name: "--cap-drop", operands: capWord, help: "Take the capability CAP from the command", act: (*parser).capability},
	{name: "--perms", operands: []string{"OCTAL"}, help: "Permissions of what the next option makes", modifier: true, act: (*parser).setPerms},
	{name: "--size", operands: []string{"BYTES"}, help: "Size of what the next --tmpfs makes", modifier: true, act: (*parser).setSize},
	{name: "--chmod", operands: []string{"OCTAL", "PATH"}, help: "Change the permissions of PATH, which must exist", act: (*parser).chmod},
	{name: "--not-a-security-boundary", help: "Not for protection: go on where a mount below a bind cannot be restricted", flag: func(p *parser) *bool { return &p.bw.Lenient }},
}

// numbers words the usual complaint about missing operands.
var numbers = [...]string{1: "an argument", 2: "two arguments", 3: "three arguments"}

// lack is what is said when operands are missing.
func (o option) lack() string {
	switch o.wording {
	case "":
		return o.name + " takes " + numbers[len(o.operands)]
	case one:
		return fmt.Sprintf(one, o.name)
	}
	return o.wording
}

// synopsis is the option with the names of its operands.
func (o option) synopsis() string {
	return strings.Join(append([]string{o.name}, o.operands...), " ")
}
