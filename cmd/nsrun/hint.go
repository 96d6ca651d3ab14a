package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// foreign are flags that docker (or podman), bubblewrap and firejail have, and what to type for them. A name that nsrun has is not looked for.
var foreign = []struct{ names, hint string }{
	{"volume bind dev-bind whitelist", "write --rw PATH for a path at its own place, --mount SRC:DST for another place"},
	{"ro-bind", "write --ro PATH for a path at its own place, --mount SRC:DST:ro for another place"},
	{"overlay tmp-overlay ro-overlay", "write --ro PATH to show it read-only"},
	{"tmpfs", "leave it out: /tmp is a private tmpfs, and --limit tmpfs_mb=512 bounds it"},
	{"read-only", "leave it out: only what --rw, --mount and --workspace show is writable; --ro PATH shows a path read-only"},
	{"blacklist private-tmp private-dev private-etc private-bin proc dev", "leave it out: the command sees nothing of the host that is not granted"},
	{"private private-home", "leave it out: the command sees nothing of your home directory that is not granted"},
	{"private-cwd workdir cwd", "write --chdir DIR"},
	{"dir file symlink perms bind-data ro-bind-data size", "leave it out, or use nsrun bwrap, which takes bubblewrap's options"},
	{"memory m mem memory-swap rlimit-as", "write --limit memory_mb=512M"},
	{"cpus cpu-quota cpuset-cpus cpu", "write --limit cpu_percent=100, which is one whole CPU"},
	{"cpu-shares c", "write --limit cpu_weight=100"},
	{"pids-limit rlimit-nproc", "write --limit pids=256"},
	{"ulimit rlimit-nofile rlimit-fsize rlimit-cpu", "write --limit NAME=NUMBER; nsrun help limits lists the names"},
	{"network netns", "write --net none, --net host or --net allow:HOST:PORT"},
	{"share-net", "write --net host"},
	{"unshare-net", "leave it out, or write --net none: a run has no network unless --net gives it one"},
	{"unshare-all unshare-user unshare-user-try unshare-pid unshare-ipc unshare-uts unshare-cgroup unshare-cgroup-try pid ipc uts userns " +
		"cgroupns cap-drop caps.drop drop nonewprivs noroot ipc-namespace", "leave it out: a run has that always"},
	{"die-with-parent new-session as-pid-1 init disable-userns clearenv restrict-namespaces", "leave it out: a run does that always"},
	{"publish p expose", "leave it out: no port inside can be reached, but with --net host"},
	{"dns add-host", "leave it out: with --net host the host's resolver counts"},
	{"user u", "write --uid N --gid N, or leave it out: the command has your ids"},
	{"interactive i attach a", "leave it out: standard input is the command's; --tty gives it a terminal"},
	{"detach d", "leave it out: put & behind the command line, or use nsrun session"},
	{"name", "leave it out, or write --label name=NAME, a word for audit logs"},
	{"rm", "leave it out: nothing of a sandbox is left when the command has ended"},
	{"entrypoint", "leave it out: put the program after --"},
	{"env-file", "write -e NAME=VALUE for each variable, or set_env in a manifest"},
	{"unsetenv rmenv", "leave it out: a variable that no -e names is not passed"},
	{"privileged cap-add security-opt device gpus", "leave it out: a run gets no capabilities and no devices"},
	{"profile", "write --commands NAME for command rules, --manifest FILE for a policy"},
}

// foreignHint says what to type for a flag of another program.
func foreignHint(name string, values []string) string {
	if slices.Contains([]string{"volume", "bind", "dev-bind", "ro-bind"}, name) {
		if line := volume(values); line != "" {
			return "write " + line
		}
	}
	for _, row := range foreign {
		if slices.Contains(strings.Fields(row.names), name) {
			return row.hint
		}
	}
	return ""
}

// volume gives the flag for the value of docker's -v, PATH:PATH and perhaps options: the first of the words that is not empty. It gives nothing
// where that has another form.
func volume(values []string) string {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	if len(values) == 0 {
		return ""
	}
	parts := strings.Split(values[0], ":")
	if len(parts) < 2 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") {
		return ""
	}
	readOnly := len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro")
	return mountLine(parts[0], parts[1], readOnly)
}

// mountLine is the shortest flag that shows a path of the host.
func mountLine(source, dest string, readOnly bool) string {
	switch {
	case source == dest && readOnly:
		return "--ro " + shellQuote(source)
	case source == dest:
		return "--rw " + shellQuote(source)
	case readOnly:
		return "--mount " + shellQuote(source+":"+dest+":ro")
	}
	return "--mount " + shellQuote(source+":"+dest)
}

// unknownVerb says what to type in the place of a first word that is no verb.
func unknownVerb(args []string) error {
	name := args[0]
	if strings.HasPrefix(name, "-") {
		written, _, _ := strings.Cut(name, "=")
		if newFlags("run", (&flags{}).runRows()...).Lookup(strings.TrimLeft(written, "-")) != nil {
			return fmt.Errorf("%q is not a verb; flags come after the verb, as in nsrun run %s -- CMD", name, shellQuote(name))
		}
	}
	if near, ok := policy.Nearest(name, verbNames()); ok {
		return fmt.Errorf("%q is not a verb; did you mean nsrun %s?", name, near)
	}
	if name == "exec" {
		return fmt.Errorf("%q is not a verb; write nsrun run -- CMD ARG..., or use nsrun session for a sandbox that stays", name)
	}
	if _, err := exec.LookPath(name); err == nil {
		words := make([]string, len(args))
		for i := range args {
			words[i] = shellQuote(args[i])
		}
		return fmt.Errorf("%q is not a verb; to run it write nsrun run -- %s", name, strings.Join(words, " "))
	}
	return fmt.Errorf("%q is not a verb; use one of %s", name, strings.Join(verbNames(), ", "))
}
