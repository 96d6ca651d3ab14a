package bwrap

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// Step is a step of the set-up that failed.
type Step struct {
	// Stage and Op name it, as the table of messages does.
	Stage, Op string
	// Path is what it was about, where the plan does not say: the layer that is missing, the lock file, the symlink's target, the
	// netlink request.
	Path string
	// Index is the mount operation, from 1; 0 is none.
	Index int
}

// message is how bubblewrap calls a failure.
type message struct {
	// key is "stage op"; a stage alone stands for its other operations. cause, if there is one, is the only cause that the message is for.
	key, cause string
	// text has {dest}, {source}, {mode} and {options} of the mount operation, {path} of the step, and {command}, {chdir}, {hostname},
	// {uid} and {gid} of the plan.
	text string
	// whole says that no cause follows.
	whole bool
	// mount says that ENOSPC is explained.
	mount bool
}

// messages are those of the stages and operations, and behind them those of failures that bubblewrap explains by their cause.
var messages = [...]message{
	{key: "namespaces", text: "Creating new namespace failed"},
	{key: "namespaces pidns", text: "Setting pidns failed"},
	{key: "namespaces pidns-unshare", text: "unshare pid ns"},
	{key: "identity uid_map", text: "setting up uid map"},
	{key: "identity setgroups", text: "error writing to setgroups"},
	{key: "identity gid_map", text: "setting up gid map"},
	{key: "identity userns", text: "Joining specified user namespace failed"},
	{key: "identity userns2", text: "Setting userns2 failed"},
	{key: "identity pidns", text: "Setting pidns failed"},
	{key: "identity second", text: "unshare user ns"},
	{key: "identity max_user_namespaces", text: "sysctl user.max_user_namespaces = 1"},
	{key: "identity assert", text: "creation of new user namespaces was not disabled as requested", whole: true},
	{key: "identity setuid", text: "unable to switch to uid {uid}"},
	{key: "identity setgid", text: "unable to switch to gid {gid}"},
	{key: "network", text: "loopback: Failed {path}"},
	{key: "hostname", text: "Can't set hostname to {hostname}"},
	{key: "root slave", text: "Failed to make / slave", mount: true},
	{key: "root tmpfs", text: "Failed to mount tmpfs", mount: true},
	{key: "root newroot", text: "Creating newroot failed", mount: true},
	{key: "root pivot", text: "pivot_root"},
	{key: "root detach", text: "unmount old root"},
	{key: "mount source", text: "Can't find source path {path}"},
	{key: "mount type", text: "Can't get type of source {source}"},
	{key: "mount parents", text: "Can't mkdir parents for {dest}"},
	{key: "mount mkdir", text: "Can't create file {dest}"}, // also of directories
	{key: "mount file", text: "Can't create file {dest}"},
	{key: "mount symlink-dest", text: "Can't mount on symlink destination {dest}", whole: true},
	{key: "mount not-dir", text: "Destination is not a directory {dest}", whole: true},
	{key: "mount not-file", text: "Destination is not a file {dest}", whole: true},
	{key: "mount bind", text: "Can't bind mount {source} on {dest}: Unable to mount source on destination", mount: true},
	{key: "mount setattr", text: "Can't bind mount {source} on {dest}: mount_setattr() failed at \"{newroot}\"", mount: true},
	{key: "mount remount", text: "Can't remount readonly on {dest}: mount_setattr() failed at \"/newroot{path}\"", mount: true},
	{key: "mount tmpfs", text: "Can't mount tmpfs on {dest}", mount: true},
	{key: "mount proc", text: "Can't mount proc on {newroot}", mount: true}, // clients look for /newroot/proc
	{key: "mount devpts", text: "Can't mount devpts on {dest}/pts", mount: true},
	{key: "mount mqueue", text: "Can't mount mqueue on {dest}", mount: true},
	{key: "mount overlay", text: "Can't make overlay mount on {dest} with options {options}", mount: true},
	{key: "mount chmod", text: "Can't chmod {mode} {dest}"},
	{key: "mount open", text: "Can't open {dest}"},
	{key: "mount symlink", text: "Can't make symlink at {dest}"},
	{key: "mount symlink-exists", text: "Can't make symlink at {dest}: destination exists and is not a symlink", whole: true},
	{key: "mount symlink-differs", text: "Can't make symlink at {dest}: existing destination is {path}", whole: true},
	{key: "mount write", text: "Can't write data to file {dest}"},
	{key: "mount stat-fd", text: "Can't stat fd {path}"},
	{key: "mount race", text: "Race condition binding dirfd"},
	{key: "mount cover", text: "Can't access {path}"},
	{key: "mount dev-source", text: "Can't open source {path}"},
	{key: "mount dev-node", text: "Can't bind mount {path} on {node}: Unable to mount source on destination", mount: true},
	{key: "mount console", text: "creating {dest}/console"},
	{key: "capabilities", text: "capset failed"},
	{key: "no_new_privs", text: "prctl(PR_SET_NO_NEW_PRIVS) failed"},
	{key: "chdir", text: "Can't chdir to {chdir}"},
	{key: "session", text: "setsid"},
	{key: "label", text: "label_exec {command}"},
	{key: "seccomp", text: "prctl(PR_SET_SECCOMP)"},
	{key: "lock open", text: "Unable to open lock file {path}"},
	{key: "lock lock", text: "Unable to lock file {path}"},
	{key: "command fork", text: "Can't fork for pid 1"},
	{key: "init wait", text: "init wait()"},
	{key: "exec", text: "execvp {command}"},
	{key: "info", text: "Write to info_fd"},
	{key: "identity userns", cause: invalid, whole: true, text: "Joining the specified user namespace failed, it might not be a descendant of the current user namespace."},
	{key: "seccomp", cause: invalid, whole: true, text: "Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. " +
		"(Hint: this requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.)"},
	{key: "namespaces", cause: noSpace, whole: true, text: "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"},
	{key: "mount chmod", cause: noEntry, text: "Can't open {dest}"},
	{key: "mount symlink", cause: exists, text: "Can't make symlink at {dest}: destination exists and is not a symlink", whole: true},
	{key: "mount overlay", cause: loop, whole: true, text: "Can't make overlay mount on {dest} with options {options}: Overlay directories may not overlap"},
	{key: "namespaces user", cause: invalid, whole: true, text: "Creating new namespace failed, likely because the kernel does not support user namespaces."},
	{key: "namespaces user", cause: notPermitted, whole: true, text: "No permissions to create a new namespace, likely because the kernel does not allow " +
		"non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."},
}

// The causes that some failures are told apart by, as strerror(3) words them.
const (
	notPermitted = "Operation not permitted"
	invalid      = "Invalid argument"
	noSpace      = "No space left on device"
	noEntry      = "No such file or directory"
	exists       = "File exists"
	loop         = "Too many levels of symbolic links"
)

const noMounts = "Limit exceeded (ENOSPC). (Hint: Check that /proc/sys/fs/mount-max is sufficient, typically 100000)"

// Message is what bubblewrap prints when a step of a plan fails, a complete line: errText is the cause in strerror(3)'s words. A step
// that bubblewrap does not have is named by its stage, operation and path.
func Message(p *plan.Plan, step Step, errText string) string {
	m := find(p, step, errText)
	text := fill(m.text, p, step)
	switch {
	case m.whole || errText == "":
	case m.mount && errText == noSpace:
		text += ": " + noMounts
	default:
		text += ": " + errText
	}
	return diagnostic(p.Bwrap != nil && p.Bwrap.LevelPrefix, levelError, text)
}

func find(p *plan.Plan, step Step, errText string) message {
	keys := []string{step.Stage + " " + step.Op, step.Stage}
	if step.Stage == "namespaces" && step.Op == "clone" && slices.Contains(p.Namespaces, plan.User) {
		keys = append([]string{"namespaces user"}, keys...)
	}
	for _, cause := range []string{errText, ""} {
		for _, key := range keys {
			for _, m := range messages {
				if m.key == key && m.cause == cause {
					return m
				}
			}
		}
	}
	words := slices.DeleteFunc([]string{step.Stage, step.Op, step.Path}, func(w string) bool { return w == "" })
	return message{text: strings.Join(words, " ")}
}

// fill puts what the step and the plan are about into a text.
func fill(text string, p *plan.Plan, step Step) string {
	op := mounts.Op{Dest: step.Path, Source: step.Path}
	if 1 <= step.Index && step.Index <= len(p.Mounts) {
		op = p.Mounts[step.Index-1]
	}
	if op.Kind == mounts.Data {
		op.Source = "tmpfile" // what bubblewrap calls a file that has no name
	}
	about := step.Path
	if about == "" {
		about = map[string]string{"mount": cmp.Or(op.Source, op.Dest), "network": "RTM_NEWADDR"}[step.Stage]
	}
	command, chdir, hostname := "", about, p.Hostname
	if len(p.Command) > 0 {
		command = p.Command[0]
	}
	if p.Bwrap != nil && p.Bwrap.Chdir != nil {
		chdir = *p.Bwrap.Chdir
	}
	if step.Stage == "hostname" && step.Path != "" {
		hostname = step.Path
	}
	return strings.NewReplacer("{dest}", op.Dest, "{source}", op.Source, "{mode}", fmt.Sprintf("%#o", op.Mode), "{options}", overlayOptions(op),
		"{newroot}", "/newroot/"+strings.TrimLeft(op.Dest, "/"), "{node}", op.Dest+"/"+path.Base(about), "{path}", about, "{command}", command,
		"{chdir}", chdir, "{hostname}", hostname, "{uid}", fmt.Sprint(p.Identity.UID), "{gid}", fmt.Sprint(p.Identity.GID)).Replace(text)
}

// overlayOptions are those of mount(8) that make an overlay.
func overlayOptions(op mounts.Op) string {
	var options []string
	if op.Upper != "" {
		options = append(options, "upperdir="+op.Upper, "workdir="+op.Work)
	}
	layers := slices.Clone(op.Layers)
	slices.Reverse(layers) // the kernel wants the uppermost first
	return strings.Join(append(options, "lowerdir="+strings.Join(layers, ":"), "userxattr"), ",")
}
