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
	// text has {dest}, {source}, {mode} and {options} of the mount operation, {path} of the step, and {command}, {chdir}, {hostname},
	// {uid} and {gid} of the plan.
	text string
	// whole says that no cause follows.
	whole bool
	// mount says that ENOSPC is explained.
	mount bool
}

// messages are those of the stages and operations, as "stage op"; a stage alone stands for its other operations.
var messages = [...]struct {
	key string
	message
}{
	{"namespaces", message{text: "Creating new namespace failed"}},
	{"namespaces pidns", message{text: "Setting pidns failed"}},
	{"namespaces pidns-unshare", message{text: "unshare pid ns"}},
	{"identity uid_map", message{text: "setting up uid map"}},
	{"identity setgroups", message{text: "error writing to setgroups"}},
	{"identity gid_map", message{text: "setting up gid map"}},
	{"identity userns", message{text: "Joining specified user namespace failed"}},
	{"identity userns2", message{text: "Setting userns2 failed"}},
	{"identity pidns", message{text: "Setting pidns failed"}},
	{"identity second", message{text: "unshare user ns"}},
	{"identity max_user_namespaces", message{text: "sysctl user.max_user_namespaces = 1"}},
	{"identity assert", message{text: "creation of new user namespaces was not disabled as requested", whole: true}},
	{"identity setuid", message{text: "unable to switch to uid {uid}"}},
	{"identity setgid", message{text: "unable to switch to gid {gid}"}},
	{"network", message{text: "loopback: Failed {path}"}},
	{"hostname", message{text: "Can't set hostname to {hostname}"}},
	{"root slave", message{text: "Failed to make / slave", mount: true}},
	{"root tmpfs", message{text: "Failed to mount tmpfs", mount: true}},
	{"root newroot", message{text: "Creating newroot failed", mount: true}},
	{"root pivot", message{text: "pivot_root"}},
	{"root detach", message{text: "unmount old root"}},
	{"mount source", message{text: "Can't find source path {path}"}},
	{"mount type", message{text: "Can't get type of source {source}"}},
	{"mount parents", message{text: "Can't mkdir parents for {dest}"}},
	{"mount mkdir", message{text: "Can't create file {dest}"}}, // also of directories
	{"mount file", message{text: "Can't create file {dest}"}},
	{"mount symlink-dest", message{text: "Can't mount on symlink destination {dest}", whole: true}},
	{"mount not-dir", message{text: "Destination is not a directory {dest}", whole: true}},
	{"mount not-file", message{text: "Destination is not a file {dest}", whole: true}},
	{"mount bind", message{text: "Can't bind mount {source} on {dest}: Unable to mount source on destination", mount: true}},
	{"mount setattr", message{text: "Can't bind mount {source} on {dest}: mount_setattr() failed at \"{newroot}\"", mount: true}},
	{"mount remount", message{text: "Can't remount readonly on {dest}: mount_setattr() failed at \"/newroot{path}\"", mount: true}},
	{"mount tmpfs", message{text: "Can't mount tmpfs on {dest}", mount: true}},
	{"mount proc", message{text: "Can't mount proc on {newroot}", mount: true}}, // clients look for /newroot/proc
	{"mount devpts", message{text: "Can't mount devpts on {dest}/pts", mount: true}},
	{"mount mqueue", message{text: "Can't mount mqueue on {dest}", mount: true}},
	{"mount overlay", message{text: "Can't make overlay mount on {dest} with options {options}", mount: true}},
	{"mount chmod", message{text: "Can't chmod {mode} {dest}"}},
	{"mount open", message{text: "Can't open {dest}"}},
	{"mount symlink", message{text: "Can't make symlink at {dest}"}},
	{"mount symlink-exists", message{text: "Can't make symlink at {dest}: destination exists and is not a symlink", whole: true}},
	{"mount symlink-differs", message{text: "Can't make symlink at {dest}: existing destination is {path}", whole: true}},
	{"mount write", message{text: "Can't write data to file {dest}"}},
	{"mount stat-fd", message{text: "Can't stat fd {path}"}},
	{"mount race", message{text: "Race condition binding dirfd"}},
	{"mount cover", message{text: "Can't access {path}"}},
	{"mount dev-source", message{text: "Can't open source {path}"}},
	{"mount dev-node", message{text: "Can't bind mount {path} on {node}: Unable to mount source on destination", mount: true}},
	{"mount console", message{text: "creating {dest}/console"}},
	{"capabilities", message{text: "capset failed"}},
	{"no_new_privs", message{text: "prctl(PR_SET_NO_NEW_PRIVS) failed"}},
	{"chdir", message{text: "Can't chdir to {chdir}"}},
	{"session", message{text: "setsid"}},
	{"label", message{text: "label_exec {command}"}},
	{"seccomp", message{text: "prctl(PR_SET_SECCOMP)"}},
	{"lock open", message{text: "Unable to open lock file {path}"}},
	{"lock lock", message{text: "Unable to lock file {path}"}},
	{"command fork", message{text: "Can't fork for pid 1"}},
	{"init wait", message{text: "init wait()"}},
	{"exec", message{text: "execvp {command}"}},
	{"info", message{text: "Write to info_fd"}},
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

// explained are failures that bubblewrap explains by their cause. A text stands for itself, whole.
var explained = [...]struct {
	key, cause string
	message
}{
	{"identity userns", invalid, message{whole: true, text: "Joining the specified user namespace failed, it might not be a descendant of the current user namespace."}},
	{"seccomp", invalid, message{whole: true, text: "Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. " +
		"(Hint: this requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.)"}},
	{"namespaces", noSpace, message{whole: true, text: "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"}},
	{"mount chmod", noEntry, message{text: "Can't open {dest}"}},
	{"mount symlink", exists, message{text: "Can't make symlink at {dest}: destination exists and is not a symlink", whole: true}},
	{"mount overlay", loop, message{whole: true, text: "Can't make overlay mount on {dest} with options {options}: Overlay directories may not overlap"}},
	{"namespaces user", invalid, message{whole: true, text: "Creating new namespace failed, likely because the kernel does not support user namespaces."}},
	{"namespaces user", notPermitted, message{whole: true, text: "No permissions to create a new namespace, likely because the kernel does not allow " +
		"non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."}},
}

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
	for _, key := range keys {
		for _, row := range explained {
			if row.key == key && row.cause == errText {
				return row.message
			}
		}
	}
	for _, key := range keys {
		for _, row := range messages {
			if row.key == key {
				return row.message
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
