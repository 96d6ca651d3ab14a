package plan

import (
	"fmt"
	"io"
	"strings"
)

// Bwrap is what bubblewrap's command line can ask for beyond the rest of a plan. A plan that has it follows bubblewrap's rules and
// nothing else: Namespaces lists just what was asked for, Mounts are as [mounts.Tree] with Compat takes them, Env is the whole
// environment but for PWD, Dir is empty, and Landlock, Seccomp and Limits are layers that the operator has added.
//
// Descriptors are numbers of the process that carries the plan out; nil is none.
type Bwrap struct {
	// Argv0 is what the command gets as argv[0], if it is not Command[0].
	Argv0 *string `json:"argv0,omitempty"`
	// Chdir is --chdir. Without it Dirs are tried in turn, and "/" last.
	Chdir *string  `json:"chdir,omitempty"`
	Dirs  []string `json:"dirs,omitempty"`

	// Users says how the user namespaces are made.
	Users Users `json:"users"`
	// Caps are the capabilities that stay, by number, if KeepCaps is not set. KeepCaps leaves the sets of root as they are: no
	// option has named any.
	Caps     []int `json:"caps,omitempty"`
	KeepCaps bool  `json:"keep_caps,omitempty"`

	// Hostnames are set one after the other.
	Hostnames []string `json:"hostnames,omitempty"`
	// Filters are raw BPF programs, installed in this order, by the command and by the process that waits for it.
	Filters [][]byte `json:"filters,omitempty"`
	// ExecLabel and FileLabel are SELinux contexts of the command and of file systems in memory.
	ExecLabel string `json:"exec_label,omitempty"`
	FileLabel string `json:"file_label,omitempty"`

	// Waiter keeps a process between nsrun and the command: pid 1 of a new pid namespace, the holder of LockFiles and SyncFDs.
	Waiter        bool     `json:"waiter,omitempty"`
	AsPid1        bool     `json:"as_pid_1,omitempty"`
	NewSession    bool     `json:"new_session,omitempty"`
	DieWithParent bool     `json:"die_with_parent,omitempty"`
	LockFiles     []string `json:"lock_files,omitempty"`

	SyncFDs       []int `json:"sync_fds,omitempty"` // stay open in the waiter
	BlockFD       *int  `json:"block_fd,omitempty"` // read from before the command starts
	InfoFD        *int  `json:"info_fd,omitempty"`
	StatusFD      *int  `json:"status_fd,omitempty"` // --json-status-fd
	UsernsBlockFD *int  `json:"userns_block_fd,omitempty"`
	PidnsFD       *int  `json:"pidns_fd,omitempty"`
	// Consumed lists the descriptors that options have read or bound, which the command does not get.
	Consumed []int `json:"consumed,omitempty"`

	// LevelPrefix puts <3> before messages.
	LevelPrefix bool `json:"level_prefix,omitempty"`
	// Lenient is --not-a-security-boundary.
	Lenient bool `json:"lenient,omitempty"`
}

// Users says how the user namespaces of a bubblewrap plan are made. That there is an own one is in Plan.Namespaces.
type Users struct {
	// FirstUID and FirstGID are what the caller's ids become in the first own user namespace: 0 where devpts is mounted, since that
	// takes a root that is mapped.
	FirstUID int `json:"first_uid"`
	FirstGID int `json:"first_gid"`
	// Second makes another one for the command, with the ids of Plan.Identity.
	Second bool `json:"second,omitempty"`
	// Foreign leaves the maps to somebody else: --userns-block-fd.
	Foreign bool `json:"foreign,omitempty"`
	// FD and FD2 are joined, before anything else and after all mounts: --userns, --userns2.
	FD  *int `json:"fd,omitempty"`
	FD2 *int `json:"fd2,omitempty"`
	// Disable allows no further ones; Assert makes sure that there can be none.
	Disable bool `json:"disable,omitempty"`
	Assert  bool `json:"assert,omitempty"`
}

// text prints what differs from a plan of nsrun's own.
func (b *Bwrap) text(out io.Writer) {
	if b == nil {
		return
	}
	var words []string
	add := func(on bool, format string, args ...any) {
		if on {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	fd := func(name string, n *int) {
		if n != nil {
			words = append(words, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	add(b.Argv0 != nil, "argv0=%s", quote(deref(b.Argv0)))
	add(b.Chdir != nil, "chdir=%s", quote(deref(b.Chdir)))
	add(len(b.Dirs) > 0, "dirs=%s", quoteWords(b.Dirs))
	add(true, "first-ids=%d:%d", b.Users.FirstUID, b.Users.FirstGID)
	add(b.Users.Second, "second-user-namespace")
	add(b.Users.Foreign, "foreign-maps")
	add(b.Users.Disable, "disable-userns")
	add(b.Users.Assert, "assert-userns-disabled")
	add(b.KeepCaps, "capabilities-kept")
	add(len(b.Caps) > 0, "capabilities=%v", b.Caps)
	add(len(b.Hostnames) > 0, "hostnames=%s", quoteWords(b.Hostnames))
	for _, f := range b.Filters {
		add(true, "filter(%d instructions)", len(f)/8)
	}
	add(b.ExecLabel != "", "exec-label=%s", quote(b.ExecLabel))
	add(b.FileLabel != "", "file-label=%s", quote(b.FileLabel))
	add(b.Waiter, "waiter")
	add(b.AsPid1, "as-pid-1")
	add(b.NewSession, "new-session")
	add(b.DieWithParent, "die-with-parent")
	add(len(b.LockFiles) > 0, "lock-files=%s", quoteWords(b.LockFiles))
	add(len(b.SyncFDs) > 0, "sync-fds=%v", b.SyncFDs)
	fd("block-fd", b.BlockFD)
	fd("info-fd", b.InfoFD)
	fd("status-fd", b.StatusFD)
	fd("userns-block-fd", b.UsernsBlockFD)
	fd("userns", b.Users.FD)
	fd("userns2", b.Users.FD2)
	fd("pidns", b.PidnsFD)
	add(len(b.Consumed) > 0, "consumed=%v", b.Consumed)
	add(b.LevelPrefix, "level-prefix")
	add(b.Lenient, "not-a-security-boundary")
	fmt.Fprintf(out, "bwrap       %s\n", strings.Join(words, " "))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
