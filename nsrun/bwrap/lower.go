package bwrap

import (
	"slices"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// privileges refuses callers with rights that are not their user's, before anything is read.
func (p *parser) privileges() error {
	c := p.caller
	switch {
	case c.EffectiveUID != c.UID:
		return p.die("setuid use of bubblewrap is not supported")
	case c.UID != 0 && c.Caps != 0:
		return p.die("Unexpected capabilities but not setuid, old file caps config?")
	case c.UID == 0:
		p.caps = c.Caps
	}
	return nil
}

// rule is what a command line may not be.
type rule struct {
	broken bool
	text   string
}

// refuse refuses a command line by the first rule that it breaks.
func (p *parser) refuse(rules []rule) error {
	for _, r := range rules {
		if r.broken {
			return p.die("%s", r.text)
		}
	}
	return nil
}

// validate refuses what does not go together, in bubblewrap's order.
func (p *parser) validate(command []string) error {
	users := &p.bw.Users
	asked := p.unshare[plan.User]
	if err := p.refuse([]rule{
		{p.bw.UsernsBlockFD != nil && !asked, "--userns-block-fd requires --unshare-user"},
		{p.bw.UsernsBlockFD != nil && p.bw.InfoFD == nil, "--userns-block-fd requires --info-fd"},
		{users.FD != nil && asked, "--userns is not compatible with --unshare-user"},
		{users.FD != nil && p.tryUser, "--userns is not compatible with --unshare-user-try"},
		{users.Disable && !asked, "--disable-userns requires --unshare-user"},
		{users.Disable && p.bw.UsernsBlockFD != nil, "--disable-userns is not compatible with --userns-block-fd"},
	}); err != nil {
		return err
	}
	p.ownUserNamespace()
	if len(command) == 0 {
		return p.usage(false)
	}
	return p.validateIDs()
}

// ownUserNamespace decides whether one is made: an ordinary user gets one unasked.
func (p *parser) ownUserNamespace() {
	implied := p.caller.UID != 0 && p.bw.Users.FD == nil
	tried := p.tryUser && p.facts.Can(facts.UserNS)
	if implied || tried {
		p.unshare[plan.User] = true
	}
}

func (p *parser) validateIDs() error {
	users := p.unshare[plan.User] || p.bw.Users.FD != nil
	foreign := func(id *int, own int) bool { return id != nil && *id != own && !users }
	return p.refuse([]rule{
		{foreign(p.uid, p.caller.UID), "Specifying --uid requires --unshare-user or --userns"},
		{foreign(p.gid, p.caller.GID), "Specifying --gid requires --unshare-user or --userns"},
		{len(p.bw.Hostnames) > 0 && !p.unshare[plan.Uts], "Specifying --hostname requires --unshare-uts"},
		{p.bw.AsPid1 && !p.unshare[plan.Pid], "Specifying --as-pid-1 requires --unshare-pid"},
		{p.bw.AsPid1 && len(p.bw.LockFiles) > 0, "Specifying --as-pid-1 and --lock-file is not permitted"},
		{p.unshare[plan.Cgroup] && !p.hasCgroups(), "Cannot create new cgroup namespace because the kernel does not support it"},
	})
}

func (p *parser) hasCgroups() bool { return p.facts.State(facts.CgroupNS) != facts.No }

// readData fills in the contents that descriptors hold, in the order of the operations, and the filter last.
func (p *parser) readData() error {
	late := map[int]bool{}
	for i := range p.ops {
		op := &p.ops[i]
		if op.FD == nil || op.Kind == mounts.Bind {
			continue
		}
		fd := *op.FD
		if p.caller.Late != nil && !late[fd] && p.caller.Late(fd) {
			late[fd] = true
			continue
		}
		data, err := p.read(fd)
		if err != nil {
			return p.die("Can't write data to file %s: %v", op.Dest, err)
		}
		op.FD, op.Data = nil, data
	}
	if p.seccompFD != nil {
		return p.filter(*p.seccompFD)
	}
	return nil
}

// plan puts together what has been read.
func (p *parser) plan(command []string) *plan.Plan {
	c := p.caller
	id := plan.Identity{UID: c.UID, GID: c.GID, HostUID: c.UID, HostGID: c.GID}
	if p.uid != nil {
		id.UID = *p.uid
	}
	if p.gid != nil {
		id.GID = *p.gid
	}
	out := &plan.Plan{
		Version: plan.Version, Backend: "native", Command: slices.Clone(command), Env: append([]string{}, p.env...), Identity: id,
		Namespaces: p.namespaces(), Network: "host", LastCap: p.facts.LastCap,
		Mechanisms: plan.Mechanisms{
			MountAPI: p.facts.Can(facts.MountAPI) && p.facts.Can(facts.MountSetattr) && !p.given[noMountSetattr], Openat2: p.facts.Can(facts.Openat2) && !p.given[noOpenat2],
			CloseRange: p.facts.Can(facts.CloseR),
		},
	}
	if p.unshare[plan.Net] {
		out.Network = "none"
	}
	if n := len(p.bw.Hostnames); n > 0 {
		out.Hostname = p.bw.Hostnames[n-1]
	}
	out.Mounts = p.mounts()
	out.Bwrap = p.bwrap(id)
	if out.Bwrap.Argv0 == nil && slices.Contains(ownProgram, command[0]) {
		name := "bwrap"
		out.Bwrap.Argv0 = &name
	}
	return out
}

// ownProgram are the names by which a command line asks for bubblewrap itself inside, where its path may not be: /proc/self is still the process
// that makes the sandbox when it executes the command. This program is bubblewrap only under that name (doc/adr/093).
var ownProgram = []string{"/proc/self/exe", "/proc/thread-self/exe"}

func (p *parser) namespaces() []string {
	p.unshare[plan.Mount] = true
	p.unshare[plan.Cgroup] = p.unshare[plan.Cgroup] || p.tryCgroup && p.hasCgroups()
	var names []string
	for _, name := range []string{plan.User, plan.Mount, plan.Pid, plan.Ipc, plan.Uts, plan.Net, plan.Cgroup} {
		if p.unshare[name] {
			names = append(names, name)
		}
	}
	return names
}

// mounts are the operations, with what options anywhere on the line say about them.
func (p *parser) mounts() []mounts.Op {
	if len(p.ops) == 0 { // nil, whatever room there is, as plans are compared
		return nil
	}
	ownPids := p.unshare[plan.Pid] || p.bw.PidnsFD != nil
	for i := range p.ops {
		op := &p.ops[i]
		switch op.Kind {
		case mounts.Proc:
			if !ownPids {
				op.Source = "/proc"
			}
		case mounts.Tmpfs, mounts.Dev:
			op.Context = p.bw.FileLabel
		}
	}
	return p.ops
}

func (p *parser) bwrap(id plan.Identity) *plan.Bwrap {
	b := p.bw
	b.Dirs = slices.Clone(p.caller.Cwd)
	if home, ok := p.env.get("HOME"); ok && home != "" {
		b.Dirs = append(b.Dirs, home)
	}
	b.Caps = capList(p.caps, p.facts.LastCap)
	b.KeepCaps = p.caller.UID == 0 && !p.capsNamed
	b.Waiter = !b.AsPid1 && (p.unshare[plan.Pid] || len(b.LockFiles) > 0 || len(b.SyncFDs) > 0)
	b.Consumed = p.consumed()

	u := &b.Users
	u.Foreign = b.UsernsBlockFD != nil
	u.FirstUID, u.FirstGID = id.UID, id.GID
	own := p.unshare[plan.User] && !u.Foreign
	if own && p.needsDevpts {
		u.FirstUID, u.FirstGID = 0, 0
	}
	u.Second = own && (u.FirstUID != id.UID || u.FirstGID != id.GID || u.Disable)
	return &b
}

// consumed lists the descriptors that the command does not get. Those of namespaces are among them, which bubblewrap leaks.
func (p *parser) consumed() []int {
	fds := slices.Clone(p.wasRead)
	for _, op := range p.ops {
		if op.FD != nil {
			fds = append(fds, *op.FD)
		}
	}
	b := &p.bw
	for _, fd := range []*int{b.BlockFD, b.InfoFD, b.StatusFD} {
		if fd != nil {
			fds = append(fds, *fd)
		}
	}
	for _, fd := range []*int{b.UsernsBlockFD, b.PidnsFD, b.Users.FD, b.Users.FD2} {
		if fd != nil && *fd > 2 { // without a standard descriptor a command may not start
			fds = append(fds, *fd)
		}
	}
	if !b.AsPid1 { // process 1 holds them, and here that is the command
		fds = append(fds, b.SyncFDs...)
	}
	slices.Sort(fds)
	return slices.Compact(fds)
}
