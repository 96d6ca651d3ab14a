package plan

import (
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// packageLocks are the lock files of the package databases that sandboxes show, by the names that the databases may have, and that of the accounts
// (lckpwdf(3)), which packages add to. A process that can open a file for reading can lock it (flock(2); fcntl(2), F_RDLCK), and the host could install nothing
// until the sandbox ends. So they are covered, for users who could open them. A database that is reached through a symlink has its own row. rpm
// with a Berkeley database waits for .dbenv.lock at each look at it (serialize_env in its db3.c). Where a database itself is locked, as SQLite's is,
// nothing can be covered, since readers take such locks, too.
var packageLocks = []struct {
	path   string
	anyone bool // not root alone can read it
}{
	{"/var/lib/dpkg/lock", false}, {"/var/lib/dpkg/lock-frontend", false}, {"/var/lib/dpkg/triggers/Lock", false},
	{"/var/lib/rpm/.rpm.lock", true}, {"/usr/lib/sysimage/rpm/.rpm.lock", true}, {"/usr/share/rpm/.rpm.lock", true},
	{"/var/lib/rpm/.dbenv.lock", true}, {"/usr/lib/sysimage/rpm/.dbenv.lock", true}, {"/usr/share/rpm/.dbenv.lock", true},
	{"/lib/apk/db/lock", false}, {"/usr/lib/apk/db/lock", false}, {"/etc/.pwd.lock", false},
}

// coverLocks returns the masks of packageLocks in an entry that every sandbox has. A directory above a database that was asked
// for is shown as it is.
func (c *compiler) coverLocks(e policy.FS) (ops []mounts.Op) {
	if e.Kind != policy.Bind || !e.System {
		return nil
	}
	for _, lock := range packageLocks {
		if !lock.anyone && c.facts.UID != 0 || !policy.Inside(lock.path, e.Dest) || c.asked(lock.path) {
			continue
		}
		if above := c.above(lock.path); above == nil || above.Dest != e.Dest {
			continue
		}
		ops = append(ops, mounts.Op{Kind: mounts.Mask, Dest: lock.path, KeepLink: true, Optional: true, Quiet: true, Why: "locks the host's packages"})
	}
	return ops
}
