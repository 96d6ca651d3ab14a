package plan

import (
	"fmt"
	"path"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// Bounds of a private tmpfs when the policy gives none.
const (
	defaultTmpfsMB     = policy.DefaultTmpfsMB
	defaultTmpfsInodes = 128 << 10
)

// secretEtc are places in /etc that only root can read. A sandbox started by root is root to the file system, so they are
// covered; for anyone else the permissions do it.
var secretEtc = []string{
	"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "security/opasswd", "letsencrypt",
	"wireguard", "NetworkManager/system-connections", "krb5.keytab", "nsrun",
}

func (c *compiler) fileSystem() error {
	ops := make([]mounts.Op, 0, 2*len(c.pol.FS)+maxEtc)
	c.places = make(map[string]int, len(c.pol.FS))
	for i, e := range c.pol.FS {
		c.places[e.Dest] = i
	}
	pinned := map[string]bool{}
	for _, e := range c.pol.FS {
		ops = append(ops, c.anchorMounts(e, pinned)...)
		ops = append(ops, c.lowerFS(e))
		if e.Kind == policy.Bind && e.Dest == "/etc" {
			ops = c.appendEtc(ops)
		}
	}
	if tmp, ok := c.pol.Limit(policy.TmpfsMB); ok {
		for i := range ops {
			if ops[i].Kind == mounts.Tmpfs {
				ops[i].Size = tmp << 20
			}
		}
	}
	c.plan.Mounts = ops
	c.plan.Dir = c.pol.Dir
	if c.plan.Dir == "" {
		c.plan.Dir = "/"
	}
	return nil
}

// anchorMounts keeps what is read-only inside something writable in its place: each directory between the two is mounted on itself, since a
// mount point cannot be renamed. Otherwise a program could move such a directory away and make another in its stead, which the next
// run would take for the host's (CVE-2026-25725).
func (c *compiler) anchorMounts(e policy.FS, pinned map[string]bool) (ops []mounts.Op) {
	if e.Kind == policy.Bind && e.Write {
		return nil
	}
	above := c.above(e.Dest)
	if above == nil || above.Kind != policy.Bind || !above.Write {
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
		pin := c.lowerFS(policy.FS{Kind: policy.Bind, Source: above.Source + rest, Dest: dir, Write: true, NoExec: above.NoExec, Directory: true,
			NoFollow: true, Within: above.Within, Optional: e.Optional, Quiet: true, Why: "keeps " + e.Dest + " in its place"})
		ops = append(ops, pin)
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
	case policy.Tmpfs:
		op.Flags = append(access(e), mounts.NoSuid, mounts.NoDev)
		if e.NoExec {
			op.Flags = append(op.Flags, mounts.NoExec)
		}
		op.Size, op.Inodes = e.SizeMB<<20, e.Inodes
		if op.Size == 0 {
			op.Size = defaultTmpfsMB << 20
		}
		if op.Inodes == 0 {
			op.Inodes = defaultTmpfsInodes
		}
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
var maxEtc = 7 + len(secretEtc)

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
	file("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n")
	file("hostname", c.plan.Hostname+"\n")
	file("machine-id", "")
	if c.pol.Network.Mode() == policy.NetworkNone {
		file("hosts", "127.0.0.1 localhost "+c.plan.Hostname+"\n::1 localhost "+c.plan.Hostname+"\n")
		file("resolv.conf", "# no network in this sandbox\n")
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
