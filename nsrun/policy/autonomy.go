package policy

import (
	"cmp"
	"fmt"
	"slices"
)

// Autonomy is how much an agent may do by itself: what becomes of grants, whoever made them. See [AutonomyTable].
type Autonomy string

// The autonomies, the closest first. The empty Autonomy is Supervised.
const (
	ReadOnly   Autonomy = "readonly"   // it looks, and changes nothing of the host's
	Supervised Autonomy = "supervised" // the policy as it is written
	FullAccess Autonomy = "full"       // and the host's network
)

// Autonomies lists them all, the closest first.
var Autonomies = []Autonomy{ReadOnly, Supervised, FullAccess}

// Level returns a with the zero value spelled out.
func (a Autonomy) Level() Autonomy { return cmp.Or(a, Supervised) }

// Wider reports whether a permits more than b.
func (a Autonomy) Wider(b Autonomy) bool {
	return slices.Index(Autonomies, a.Level()) > slices.Index(Autonomies, b.Level())
}

// Effect is what becomes of a grant.
type Effect string

// The effects.
const (
	AsWritten   Effect = "as written"
	OnlyRead    Effect = "read-only"
	NotShown    Effect = "not shown"
	NotRun      Effect = "noexec"
	NoNetwork   Effect = "none"
	HostNetwork Effect = "the host's, or a list that is written"
)

// AutonomyRow is what becomes of one sort of grants, by autonomy in the order of [Autonomies].
type AutonomyRow struct {
	Grant   string
	Words   string // the front ends' for it
	Effects [3]Effect
}

// The sorts of grants.
const (
	grantRead    = "read"
	grantWrite   = "write"
	grantSocket  = "sockets"
	grantPrivate = "private"
	grantNetwork = "network"
)

// AutonomyTable says what becomes of what a policy grants. Sockets are not shown to who only reads: what is at their other end acts.
var AutonomyTable = []AutonomyRow{
	{grantRead, "fs:read, code, extra_ro, --ro", [3]Effect{AsWritten, AsWritten, AsWritten}},
	{grantWrite, "fs:write, workspace, shared_dirs, extra_rw, mounts, --rw, --mount", [3]Effect{OnlyRead, AsWritten, AsWritten}},
	{grantSocket, "sockets, --socket", [3]Effect{NotShown, AsWritten, AsWritten}},
	{grantPrivate, "the sandbox's own /tmp, /var/tmp, /dev/shm and home directory, copies of caches", [3]Effect{NotRun, AsWritten, AsWritten}},
	{grantNetwork, "network:*, network, --net", [3]Effect{NoNetwork, AsWritten, HostNetwork}},
}

// effect is what becomes of a sort of grants. What is no autonomy is taken for the closest.
func (a Autonomy) effect(grant string) Effect {
	i, column := slices.IndexFunc(AutonomyTable, func(r AutonomyRow) bool { return r.Grant == grant }), max(0, slices.Index(Autonomies, a.Level()))
	return AutonomyTable[i].Effects[column]
}

// grant is what sort of one an entry is.
func (e FS) grant() string {
	switch {
	case e.Kind == Socket:
		return grantSocket
	case e.Kind != Bind:
		return grantPrivate
	case e.Write:
		return grantWrite
	}
	return grantRead
}

// inMemory reports whether what is written to an entry is in memory.
func (e FS) inMemory() bool { return e.Kind == Tmpfs || e.Kind == Overlay }

// byAutonomy returns p with what its Autonomy makes of its grants, with a note for each that is not as written; p.Notes stay as they are. It is
// idempotent, and comes before any [Ceiling]. Only FullAccess gives anything: the host's network.
//
// Precondition: p is valid and arranged.
func (p Policy) byAutonomy() (Policy, []Note) {
	var notes []Note
	why := "autonomy " + string(p.Autonomy.Level())
	note := func(loss string) {
		notes = append(notes, Note{Feature: "autonomy", Loss: loss + " under " + why, Fix: "ask for another autonomy"})
	}
	var kept []FS
	for _, e := range p.FS {
		switch p.Autonomy.effect(e.grant()) {
		case OnlyRead:
			e.Write = false
			note(e.Dest + " (" + e.Why + ") is read-only")
		case NotRun:
			e.NoExec = e.NoExec || e.inMemory() // nobody has asked for it: it needs no note
		case NotShown:
			note(e.Source + " (" + e.Why + ") is not shown")
			if m, needed := mask(e, kept, "autonomy"); needed {
				kept = append(kept, m)
			}
			continue
		}
		kept = append(kept, e)
	}
	p.FS = kept
	was := p.Network.Mode()
	switch p.Autonomy.effect(grantNetwork) {
	case NoNetwork:
		p.Network, p.Allow, p.ProxyEnv = NetworkNone, nil, false
	case HostNetwork:
		if was != NetworkAllow { // a list that is written stays
			p.Network = NetworkHost
		}
	}
	if p.Network.Mode() != was {
		note(fmt.Sprintf("the network is %s, not %s,", p.Network.Mode(), was))
	}
	if p.Autonomy == ReadOnly && (p.Isolation.Level() != Container || p.Backend == BackendNone) {
		note("nothing keeps the command from writing without a sandbox, also")
	}
	return p, notes
}

// Obeyed reports whether nothing is left of what p's Autonomy takes away: [Normalize] sees to it.
func (p Policy) Obeyed() bool {
	kept := func(e FS) bool {
		effect := p.Autonomy.effect(e.grant())
		return effect == AsWritten || effect == NotRun && (e.NoExec || !e.inMemory())
	}
	return !slices.ContainsFunc(p.FS, func(e FS) bool { return !kept(e) }) &&
		(p.Autonomy.effect(grantNetwork) != NoNetwork || p.Network.Mode() == NetworkNone)
}
