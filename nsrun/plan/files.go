package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// ownInodes is the number of files in a tmpfs of its own whose policy gives none.
const ownInodes = 128 << 10

// inodes is the number of files in so many megabytes: one for each page, since a file without content takes memory, too. Small ones have room for
// the root's own.
func inodes(mb int64) int64 { return max(mb<<20>>12, 4096) }

// secretEtc are places in /etc that only root can read. A sandbox started by root is root to the file system, so they are
// covered; for anyone else the permissions do it.
var secretEtc = [...]string{
	"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "security/opasswd", "letsencrypt",
	"wireguard", "NetworkManager/system-connections", "krb5.keytab", "nsrun",
}

// SecretEtc reports whether a path is one of those places, or below one.
func SecretEtc(path string) bool {
	return slices.ContainsFunc(secretEtc[:], func(name string) bool { return policy.Inside(path, "/etc/"+name) })
}

func (c *compiler) fileSystem() error {
	ops := make([]mounts.Op, 0, 2*len(c.pol.FS)+maxEtc)
	c.places = make(map[string]int, len(c.pol.FS))
	for i, e := range c.pol.FS {
		c.places[e.Dest] = i
	}
	pinned := map[string]bool{}
	for _, e := range c.pol.FS {
		if c.plan.Backend == BackendDocker && policy.Inside(e.Dest, "/sys") {
			continue // the engine mounts its own /sys, which is covered
		}
		ops = append(ops, c.anchorMounts(e, pinned)...)
		ops = append(ops, c.lowerFS(e))
		ops = append(ops, c.coverLocks(e)...)
		if e.Kind == policy.Bind && e.Dest == "/etc" {
			ops = c.appendEtc(ops)
		}
	}
	c.bounds(ops)
	c.plan.Mounts = ops
	c.plan.Dir = c.inHome(cmp.Or(c.pol.Dir, "/"))
	return nil
}

// bounds gives the private places their size: one for all, and one for the home directory if the policy names it. Where another program makes
// the mounts, each place has a tmpfs of its own.
func (c *compiler) bounds(ops []mounts.Op) {
	tmp, hasTmp := c.pol.Limit(policy.TmpfsMB)
	home, hasHome := c.pol.Limit(policy.HomeMB)
	if !hasTmp {
		tmp = policy.DefaultTmpfsMB
		if c.facts.MemoryMB > 0 {
			tmp = min(tmp, max(c.facts.MemoryMB/4, 1))
		}
	}
	native := c.plan.Backend == BackendNative
	if native {
		c.plan.Tmpfs = Tmpfs{Size: tmp << 20, Inodes: inodes(tmp)}
	}
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Kind == mounts.Overlay:
			op.Size, op.Inodes = tmp<<20, inodes(tmp)
		case op.Kind != mounts.Tmpfs:
		case op.Dest == c.pol.Home && hasHome:
			op.Size, op.Inodes = home<<20, inodes(home)
			if native {
				c.plan.BoundedHome = op.Dest
			}
		case op.Size == 0 && op.Inodes == 0 && native:
			op.Shared = true
		case op.Size == 0 && op.Inodes == 0:
			op.Size, op.Inodes = tmp<<20, inodes(tmp)
		default:
			op.Size, op.Inodes = min(cmp.Or(op.Size, tmp<<20), tmp<<20), cmp.Or(op.Inodes, ownInodes)
		}
	}
}

// anchorMounts keeps what is read-only inside something writable in its place: each directory between the two is mounted on itself, since a
// mount point cannot be renamed. Otherwise a program could move such a directory away and make another in its stead, which the next
// run would take for the host's (CVE-2026-25725).
//
// It keeps whatever is granted in the home directory in its place, too: otherwise a command of a session could fake the workspace of the next one.
// In a private home directory each directory between the two is a tmpfs.
func (c *compiler) anchorMounts(e policy.FS, pinned map[string]bool) (ops []mounts.Op) {
	above := c.above(e.Dest)
	if above == nil || !above.Write {
		return nil
	}
	inHome := above.Dest == c.pol.Home
	if above.Kind != policy.Bind && !inHome || e.Kind == policy.Bind && e.Write && !inHome {
		return nil
	}
	names := strings.Split(strings.TrimPrefix(e.Dest, above.Dest+"/"), "/")
	for i := 1; i < len(names); i++ {
		rest := "/" + strings.Join(names[:i], "/")
		dir := above.Dest + rest
		if pinned[dir] || c.asked(dir) {
			continue
		}
		pinned[dir] = true
		pin := policy.FS{Kind: above.Kind, Dest: dir, Write: true, NoExec: above.NoExec, Mode: above.Mode, Why: "keeps " + e.Dest + " in its place"}
		if above.Kind == policy.Bind {
			pin.Source, pin.Directory, pin.NoFollow, pin.Within, pin.Optional, pin.Quiet = above.Source+rest, true, true, above.Within, e.Optional, true
		}
		ops = append(ops, c.lowerFS(pin))
	}
	return ops
}

// above returns the entry that decides what is seen at dest, if dest had none of its own.
func (c *compiler) above(dest string) *policy.FS {
	for dest != "/" {
		dest = path.Dir(dest)
		if i, ok := c.places[dest]; ok {
			return &c.pol.FS[i]
		}
	}
	return nil
}

// lowerFS turns one wish into one operation.
func (c *compiler) lowerFS(e policy.FS) mounts.Op {
	op := mounts.Op{Kind: mounts.Kind(e.Kind), Source: e.Source, Dest: e.Dest, Optional: e.Optional, Quiet: e.Quiet, KeepLink: e.KeepLink,
		NoFollow: e.NoFollow, Within: e.Within, Mode: e.Mode, Data: e.Data, Why: e.Why}
	switch e.Kind {
	case policy.Bind, policy.Socket:
		op.Kind = mounts.Bind
		op.Flags = append(op.Flags, access(e)...)
		op.Flags = append(op.Flags, mounts.NoSuid, mounts.NoDev)
		if e.NoExec {
			op.Flags = append(op.Flags, mounts.NoExec)
		}
		if e.Kind == policy.Socket {
			op.Only = "socket"
		} else if e.Directory {
			op.Only = "directory"
		}
	case policy.Overlay:
		op.Source, op.Layers, op.Scratch = "", []string{e.Source}, true
		op.Flags = mounts.Flags{mounts.NoSuid, mounts.NoDev}
		if e.NoExec {
			op.Flags = append(op.Flags, mounts.NoExec)
		}
	case policy.Tmpfs:
		op.Flags = append(access(e), mounts.NoSuid, mounts.NoDev)
		if e.NoExec {
			op.Flags = append(op.Flags, mounts.NoExec)
		}
		op.Size, op.Inodes = e.SizeMB<<20, e.Inodes
	}
	return op
}

func access(e policy.FS) mounts.Flags {
	if e.Write {
		return nil
	}
	return mounts.Flags{mounts.ReadOnly}
}

// maxEtc is how many operations appendEtc adds at most.
const maxEtc = 7 + len(secretEtc)

// appendEtc covers what in the host's /etc tells of its accounts, names and network by files that tell of the sandbox.
func (c *compiler) appendEtc(ops []mounts.Op) []mounts.Op {
	if c.pol.HostEtc {
		return ops
	}
	file := func(name, data string) {
		if c.asked("/etc/" + name) {
			return
		}
		ops = append(ops, mounts.Op{Kind: mounts.File, Dest: "/etc/" + name, Data: []byte(data), Flags: mounts.Flags{mounts.ReadOnly},
			Optional: true, Quiet: true, FollowDest: true, Why: "account and name files of the sandbox"})
	}
	id, home := c.plan.Identity, c.pol.Home
	if home == "" {
		home = "/"
	}
	user := userName(id.UID)
	file("passwd", fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", user, id.UID, id.GID, user, home))
	file("group", fmt.Sprintf("%s:x:%d:\nnogroup:x:65534:\n", user, id.GID))
	hosts := "files dns"
	if c.pol.Network.Mode() == policy.NetworkNone && c.plan.Explain == nil {
		hosts = "files" // a name that nobody can look up is not known at once; for a report it is asked for, of an address where nobody answers
	}
	file("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: "+hosts+"\nnetworks: files\nprotocols: files\nservices: files\n")
	file("hostname", c.plan.Hostname+"\n")
	file("machine-id", "")
	if c.pol.Network.Own() {
		file("hosts", "127.0.0.1 localhost "+c.plan.Hostname+"\n::1 localhost "+c.plan.Hostname+"\n")
		file("resolv.conf", c.resolver())
	} else if !c.asked("/etc/resolv.conf") {
		ops = append(ops, mounts.Op{Kind: mounts.Bind, Source: "/etc/resolv.conf", Dest: "/etc/resolv.conf", Optional: true, Quiet: true, FollowDest: true,
			Flags: mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev, mounts.NoExec}, Why: "resolver of the host's network"})
	}
	if c.facts.UID == 0 {
		for _, name := range secretEtc {
			if c.asked("/etc/" + name) {
				continue
			}
			ops = append(ops, mounts.Op{Kind: mounts.Mask, Dest: "/etc/" + name, Optional: true, Quiet: true, Why: "readable by root alone"})
		}
	}
	return ops
}

// resolver is resolv.conf of a sandbox with a network of its own.
func (c *compiler) resolver() string {
	if c.pol.Network.Mode() == policy.NetworkAllow {
		return "# the names of the network's allow-list\nnameserver " + resolverAddress + "\n"
	}
	return "# no network in this sandbox\noptions timeout:0 attempts:1\n" // musl reads no nsswitch.conf, and waits for five seconds
}

// resolverAddress is where nsrun's helper answers. It does so at every other address, too.
const resolverAddress = "198.18.0.1"

// asked reports whether the policy itself says what is at a place.
func (c *compiler) asked(dest string) bool {
	_, ok := c.places[dest]
	return ok
}

func userName(uid int) string {
	if uid == 0 {
		return "root"
	}
	return "user"
}
