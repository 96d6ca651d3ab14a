package bwrap_test

import (
	"path"
	"slices"
	"strings"
)

// versionDifference is a known difference of an older bubblewrap to the one that is followed. Names are patterns of path.Match, in
// which a case is written topic|name.
type versionDifference struct {
	oracle string
	scene  string
	field  string
	why    string
}

// versionDifferences lists all; the newest version is followed in each.
var versionDifferences = []versionDifference{
	{"0.12.0", "*", "fp.mount", "the mount table is parsed: mounts hidden below others keep their flags; since 0.13.0 mount_setattr reaches them"},
	{"0.12.0", "text|empty-*", "*", "empty paths are refused since 0.13.0"},
	{"0.12.0", "file|symlink*", "stderr", "empty paths are refused since 0.13.0"},
	{"0.12.0", "life|sync-*", "*", "--sync-fd can be repeated since 0.13.1"},
	{"0.12.0", "grammar|last-wins-fds", "*", "--sync-fd can be repeated since 0.13.1"},
	{"0.12.0", "mixed|*", "stderr", "--sync-fd can be repeated since 0.13.1; text of --remount-ro"},
	{"0.12.0", "file|remount-ro-no-mount", "stderr", "text of --remount-ro on what is no mount"},
	{"0.12.0", "file|dots-remount-ro-*", "stderr", "text of --remount-ro on what is no mount"},
	{"0.12.0", "symlink|remount-ro-*", "stderr", "text of --remount-ro on what is no mount"},
	{"0.12.0", "denied|remount-ro-*", "stderr", "text of --remount-ro on what is no mount"},
	{"0.12.0", "bind|root-dots", "stderr", "a second root hides what the mount table lists: remount fails"},
	{"0.8.0", "*", "stderr", "paths are spelled /newroot and /oldroot, options are missing, many texts are others"},
	{"0.8.0", "*", "fp.mount", "the mount table is parsed: mounts hidden below others keep their flags"},
	{"0.8.0", "symlink|*", "*", "destinations are not resolved in the new root: CVE-2026-87766, fixed in 0.12.0"},
	{"0.8.0", "overlay|*", "*", "overlays came with 0.11.0"},
	{"0.8.0", "denied|*overlay*", "*", "overlays came with 0.11.0"},
	{"0.8.0", "denied|*-l", "*", "destinations are not resolved in the new root"},
	{"0.8.0", "denied|layer-*", "*", "overlays came with 0.11.0"},
	{"0.8.0", "mixed|*", "*", "symlink destinations, repeated symlinks and overlays"},
	{"0.8.0", "text|empty-*", "*", "empty paths are refused since 0.13.0"},
	{"0.8.0", "text|arity-*", "*", "options came later"},
	{"0.8.0", "file|*-on-link", "*", "mounting on symlinks is refused since 0.12.0"},
	{"0.8.0", "file|file-on-link-existing", "*", "mounting on symlinks is refused since 0.12.0"},
	{"0.8.0", "file|chmod-*link", "*", "destinations are not resolved in the new root"},
	{"0.8.0", "file|chmod-link-*", "*", "destinations are not resolved in the new root"},
	{"0.8.0", "file|dots-*", "*", "destinations are not resolved in the new root; overlays came with 0.11.0"},
	{"0.8.0", "file|remount-ro-link", "*", "destinations are not resolved in the new root"},
	{"0.8.0", "file|dir-dots-above", "*", "destinations are not resolved in the new root"},
	{"0.8.0", "bind|dest-dots-above", "*", "destinations are not resolved in the new root"},
	{"0.8.0", "*|*file-slash", "*", "a trailing slash is refused"},
	{"0.8.0", "file|symlink-*", "*", "a symlink that is there already is an error before 0.9.0"},
	{"0.8.0", "client|codex", "*", "--argv0 came with 0.9.0"},
	{"0.8.0", "*|*argv0*", "*", "--argv0 came with 0.9.0"},
	{"0.8.0", "client|pressure-vessel", "*", "--level-prefix came with 0.11.0, --not-a-security-boundary with 0.12.0"},
	{"0.8.0", "grammar|level-prefix*", "*", "--level-prefix came with 0.11.0"},
	{"0.8.0", "grammar|not-a-security-boundary", "*", "came with 0.12.0"},
	{"0.8.0", "grammar|debug-opt*", "*", "came with 0.12.0"},
	{"0.8.0", "grammar|help*", "stdout", "options came later"},
	{"0.8.0", "grammar|last-wins-fds", "*", "--sync-fd can be repeated since 0.13.1"},
	{"0.8.0", "life|sync-*", "*", "--sync-fd can be repeated since 0.13.1"},
	{"0.8.0", "life|ignored-chld", "*", "with SIGCHLD ignored by the caller the exit is never seen before 0.11.1"},
	{"0.8.0", "default|signals", "*", "with SIGCHLD ignored by the caller the exit is never seen before 0.11.1"},
	{"0.8.0", "space|pidns-fd-0", "*", "--pidns 0 works since 0.11.1"},
}

// known returns the row that explains a difference, or -1.
func known(version, scene, field string) int {
	match := func(pattern, text string) bool {
		ok, err := path.Match(pattern, strings.ReplaceAll(text, "/", "|"))
		return ok && err == nil
	}
	for i, row := range slices.Concat(versionDifferences, ourDifferences) {
		if match(row.oracle, version) && match(row.scene, scene) && match(row.field, field) {
			return i
		}
	}
	return -1
}

// ours is the name of this project's own rows: where it differs from every version, and does better or cannot do otherwise.
const ours = "nsrun"

// ourDifferences lists them. doc/bwrap.md has the ones that a user can meet.
var ourDifferences = []versionDifference{
	{ours, "space|*", "fp.fd", "descriptors of namespaces do not reach the command"},
	{ours, "space|*", "fp.parent CapBnd", "the monitor does not enter the namespace that --userns names, since its process has threads"},
	{ours, "*", "fp.parent Seccomp*", "the monitor confines all its threads by a filter: root's refuses all but what its wait needs"},
	{ours, "space|pidns-as-pid-1-nested", "*", "upstream hangs"},
	{ours, "space|pidns-*", "stderr", "one line says why a namespace cannot be entered; upstream adds that it has not heard of the process"},
	{ours, "text|pidns-fd-*", "stderr", "one line says why a namespace cannot be entered; upstream adds that it has not heard of the process"},
	{ours, "space|nested-no-*", "*", "/proc/sys/kernel/overflowuid is not needed"},
	{ours, "life|lock-*", "*", "locks are taken before there is a command, which does not run without them"},
	{ours, "status|lock-fails", "*", "locks are taken before there is a command, which does not run without them"},
	{ours, "symlink|lock-file-*", "ran", "locks are taken before there is a command, which does not run without them"},
	{ours, "mixed|*", "fd 1[0-9]", "what looking at the host tells to be impossible is refused before anything is started, so there is nothing to inform of"},
	{ours, "status|set-up-fails*", "fd *", "what looking at the host tells to be impossible is refused before anything is started, so there is nothing to inform of"},
	{ours, "bind|stub-failing-late", "host", "a start that is refused has made nothing on the host"},
	{ours, "mixed|*", "stderr", "of several faults another one is told: data is read and the host is looked at before anything is made"},
	{ours, "space|nested-*", "fp.NSpid", "threads of the monitor take numbers"},
	{ours, "space|nested-all", "stderr", "the text that clients look for has /newroot, which 0.12 has dropped"},
	{ours, "seccomp|invalid*", "stderr", "upstream prints it once or twice"},
	{ours, "seccomp|errno-prctl*", "stderr", "upstream prints it once or twice"},
	{ours, "default|init-fds", "stdout", "a socket in place of the eventfd"},
	{ours, "default|signals-init", "stdout", "pid 1 waits for its children by wait4, and blocks no SIGCHLD for a signalfd"},
	{ours, "life|blocked-term-monitor", "exit", "Go's runtime unblocks SIGTERM: the monitor dies of it"},
	{ours, "default|fd-closed-*", "stdout", "Go's runtime opens /dev/null for standard descriptors that are closed"},
	{ours, "bind|root-dots", "*", "a bind on /.. is one on /, and the command is found"},
	{ours, "file|dots-*-root", "*", "what is mounted on /.. is mounted on /; upstream hides it"},
	{ours, "file|dots-proc-*", "*", "upstream cannot find a procfs again that it has mounted on what ends in /.."},
	{ours, "file|dots-dev-*", "*", "upstream cannot find a /dev again that it has mounted on what ends in /.."},
	{ours, "file|dots-*-missing", "host", "a start that is refused has made nothing on the host"},
	{ours, "file|dots-*-read-only", "stderr", "if several options are wrong, another one is reported"},
	{ours, "grammar|debug-opt", "*", "the build of the oracle lacks the fallback that the option asks for"},
	{ours, "symlink|debug-fallback", "*", "the build of the oracle lacks the fallback that the option asks for"},
	{ours, "client|itself-*", "fp.parent cmdline", "/proc/self/exe is executed under the name bwrap"},
	{ours, "client|itself-empty", "stderr", "/proc/self/exe is executed under the name bwrap"},
	{ours, "client|itself-clearenv", "fp.NSpid", "threads of the monitor take numbers"},
	{ours, "denied|layer-*", "stderr", "upstream prints (null) for the destination, and descriptors for layers"},
	{ours, "overlay|*", "stderr", "upstream prints (null) for the destination, and descriptors for layers"},
}
