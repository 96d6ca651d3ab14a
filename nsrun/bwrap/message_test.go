package bwrap

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

func TestMessage(t *testing.T) {
	chdir := "rel"
	p := &plan.Plan{Command: []string{"cmd", "arg"}, Hostname: "host", Namespaces: []string{"user", "mount"}, Identity: plan.Identity{UID: 5, GID: 6},
		Bwrap: &plan.Bwrap{Chdir: &chdir},
		Mounts: []mounts.Op{
			{Kind: mounts.Bind, Source: "/s", Dest: "/d"}, {Kind: mounts.Proc, Dest: "proc"}, {Kind: mounts.Dev, Dest: "/dev"},
			{Kind: mounts.Overlay, Dest: "/o", Layers: []string{"a", "b"}, Upper: "u", Work: "w"}, {Kind: mounts.Chmod, Dest: "/c", Mode: 0o755},
			{Kind: mounts.Data, Dest: "/f"},
		}}
	const denied, missing = "Permission denied", "No such file or directory"
	for _, c := range []struct {
		step    Step
		errText string
		want    string
	}{
		{Step{Stage: "namespaces", Op: "clone"}, notPermitted, "No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces. " +
			"On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."},
		{Step{Stage: "namespaces", Op: "clone"}, noSpace, "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"},
		{Step{Stage: "namespaces", Op: "clone"}, invalid, "Creating new namespace failed, likely because the kernel does not support user namespaces."},
		{Step{Stage: "namespaces", Op: "clone"}, "Cannot allocate memory", "Creating new namespace failed: Cannot allocate memory"},
		{Step{Stage: "identity", Op: "uid_map"}, denied, "setting up uid map: Permission denied"},
		{Step{Stage: "identity", Op: "setgroups"}, denied, "error writing to setgroups: Permission denied"},
		{Step{Stage: "identity", Op: "gid_map"}, denied, "setting up gid map: Permission denied"},
		{Step{Stage: "identity", Op: "userns"}, invalid, "Joining the specified user namespace failed, it might not be a descendant of the current user namespace."},
		{Step{Stage: "identity", Op: "userns"}, "Bad file descriptor", "Joining specified user namespace failed: Bad file descriptor"},
		{Step{Stage: "identity", Op: "userns2"}, denied, "Setting userns2 failed: Permission denied"},
		{Step{Stage: "identity", Op: "second"}, denied, "unshare user ns: Permission denied"},
		{Step{Stage: "identity", Op: "max_user_namespaces"}, denied, "sysctl user.max_user_namespaces = 1: Permission denied"},
		{Step{Stage: "identity", Op: "assert"}, "", "creation of new user namespaces was not disabled as requested"},
		{Step{Stage: "identity", Op: "setuid"}, invalid, "unable to switch to uid 5: Invalid argument"},
		{Step{Stage: "identity", Op: "setgid"}, invalid, "unable to switch to gid 6: Invalid argument"},
		{Step{Stage: "network", Op: "loopback"}, notPermitted, "loopback: Failed RTM_NEWADDR: Operation not permitted"},
		{Step{Stage: "network", Op: "loopback", Path: "RTM_NEWLINK"}, notPermitted, "loopback: Failed RTM_NEWLINK: Operation not permitted"},
		{Step{Stage: "hostname"}, invalid, "Can't set hostname to host: Invalid argument"},
		{Step{Stage: "root", Op: "slave"}, denied, "Failed to make / slave: Permission denied"},
		{Step{Stage: "root", Op: "tmpfs"}, noSpace, "Failed to mount tmpfs: " + noMounts},
		{Step{Stage: "root", Op: "newroot"}, "Value too large for defined data type", "Creating newroot failed: Value too large for defined data type"},
		{Step{Stage: "root", Op: "pivot"}, invalid, "pivot_root: Invalid argument"},
		{Step{Stage: "root", Op: "detach"}, invalid, "unmount old root: Invalid argument"},
		{Step{Stage: "mount", Op: "source", Index: 1}, missing, "Can't find source path /s: No such file or directory"},
		{Step{Stage: "mount", Op: "source", Index: 4, Path: "b"}, missing, "Can't find source path b: No such file or directory"},
		{Step{Stage: "mount", Op: "type", Index: 1}, denied, "Can't get type of source /s: Permission denied"},
		{Step{Stage: "mount", Op: "parents", Index: 1}, denied, "Can't mkdir parents for /d: Permission denied"},
		{Step{Stage: "mount", Op: "mkdir", Index: 1}, "Read-only file system", "Can't create file /d: Read-only file system"},
		{Step{Stage: "mount", Op: "symlink-dest", Index: 1}, loop, "Can't mount on symlink destination /d"},
		{Step{Stage: "mount", Op: "not-dir", Index: 1}, "", "Destination is not a directory /d"},
		{Step{Stage: "mount", Op: "not-file", Index: 1}, "", "Destination is not a file /d"},
		{Step{Stage: "mount", Op: "bind", Index: 1}, denied, "Can't bind mount /s on /d: Unable to mount source on destination: Permission denied"},
		{Step{Stage: "mount", Op: "bind", Index: 1}, noSpace, "Can't bind mount /s on /d: Unable to mount source on destination: " + noMounts},
		{Step{Stage: "mount", Op: "remount", Path: "/d", Index: 1}, invalid, `Can't remount readonly on /d: mount_setattr() failed at "/newroot/d": Invalid argument`},
		{Step{Stage: "mount", Op: "proc", Index: 2}, notPermitted, "Can't mount proc on /newroot/proc: Operation not permitted"},
		{Step{Stage: "mount", Op: "devpts", Index: 3}, invalid, "Can't mount devpts on /dev/pts: Invalid argument"},
		{Step{Stage: "mount", Op: "dev-node", Index: 3, Path: "/dev/null"}, missing, "Can't bind mount /dev/null on /dev/null: Unable to mount source on destination: No such file or directory"},
		{Step{Stage: "mount", Op: "dev-source", Index: 3, Path: "/dev/null"}, missing, "Can't open source /dev/null: No such file or directory"},
		{Step{Stage: "mount", Op: "bind", Index: 6}, missing, "Can't bind mount tmpfile on /f: Unable to mount source on destination: No such file or directory"},
		{Step{Stage: "mount", Op: "console", Index: 3}, denied, "creating /dev/console: Permission denied"},
		{Step{Stage: "mount", Op: "cover", Index: 2, Path: "proc/sys"}, denied, "Can't access proc/sys: Permission denied"},
		{Step{Stage: "mount", Op: "overlay", Index: 4}, denied, "Can't make overlay mount on /o with options upperdir=u,workdir=w,lowerdir=b:a,userxattr: Permission denied"},
		{Step{Stage: "mount", Op: "overlay", Index: 4}, loop, "Can't make overlay mount on /o with options upperdir=u,workdir=w,lowerdir=b:a,userxattr: Overlay directories may not overlap"},
		{Step{Stage: "mount", Op: "chmod", Index: 5}, "Operation not supported", "Can't chmod 0755 /c: Operation not supported"},
		{Step{Stage: "mount", Op: "chmod", Index: 5}, missing, "Can't open /c: No such file or directory"},
		{Step{Stage: "mount", Op: "symlink", Index: 1}, denied, "Can't make symlink at /d: Permission denied"},
		{Step{Stage: "mount", Op: "symlink", Index: 1}, exists, "Can't make symlink at /d: destination exists and is not a symlink"},
		{Step{Stage: "mount", Op: "symlink-differs", Index: 1, Path: "there"}, exists, "Can't make symlink at /d: existing destination is there"},
		{Step{Stage: "mount", Op: "write", Index: 1}, denied, "Can't write data to file /d: Permission denied"},
		{Step{Stage: "mount", Op: "race", Index: 1}, "", "Race condition binding dirfd"},
		{Step{Stage: "capabilities", Op: "capset"}, notPermitted, "capset failed: Operation not permitted"},
		{Step{Stage: "no_new_privs"}, invalid, "prctl(PR_SET_NO_NEW_PRIVS) failed: Invalid argument"},
		{Step{Stage: "chdir", Path: "/x"}, missing, "Can't chdir to rel: No such file or directory"},
		{Step{Stage: "session"}, notPermitted, "setsid: Operation not permitted"},
		{Step{Stage: "label"}, denied, "label_exec cmd: Permission denied"},
		{Step{Stage: "seccomp"}, invalid, "Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL. " +
			"(Hint: this requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.)"},
		{Step{Stage: "lock", Op: "open", Path: "/l"}, missing, "Unable to open lock file /l: No such file or directory"},
		{Step{Stage: "lock", Op: "lock", Path: "/l"}, denied, "Unable to lock file /l: Permission denied"},
		{Step{Stage: "command", Op: "fork"}, denied, "Can't fork for pid 1: Permission denied"},
		{Step{Stage: "exec"}, missing, "execvp cmd: No such file or directory"},
		{Step{Stage: "info", Op: "write"}, denied, "Write to info_fd: Permission denied"},
		{Step{Stage: "block"}, denied, "block: Permission denied"},
		{Step{Stage: "novel", Op: "thing", Path: "/p"}, denied, "novel thing /p: Permission denied"},
		{Step{Stage: "mount", Op: "bind", Index: 99, Path: "/p"}, denied, "Can't bind mount /p on /p: Unable to mount source on destination: Permission denied"},
	} {
		assert.Equal(t, "bwrap: "+c.want+"\n", Message(p, c.step, c.errText), "%+v", c.step)
	}
	p.Bwrap.LevelPrefix, p.Command = true, []string{""}
	assert.Equal(t, "<3>bwrap: execvp : No such file or directory\n", Message(p, Step{Stage: "exec"}, missing))
	p.Namespaces = nil
	assert.Equal(t, "<3>bwrap: Creating new namespace failed: Operation not permitted\n", Message(p, Step{Stage: "namespaces", Op: "clone"}, notPermitted),
		"root without CAP_SYS_ADMIN")
	assert.Equal(t, "bwrap: setsid\n", Message(&plan.Plan{}, Step{Stage: "session"}, ""))
}
