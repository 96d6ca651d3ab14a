package manifest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Context is what a manifest is read in. The caller fills it; this package looks at nothing.
type Context struct {
	// Home is the user's home directory, from the account, not from $HOME. Where it cannot be one, ~ is an error.
	Home string
	// Dir is the directory of the manifest file, absolute: relative hints and files are resolved against it.
	Dir string
	// Path is the manifest file, absolute and with symlinks resolved. Empty for a manifest that is no file.
	Path string
	// Read reads the BPF file that the manifest names. Without it that file is empty, which is a fault.
	Read func(path string) ([]byte, error)
}

// Policy gives what m asks for: policy.Default, and the wishes of m, for policy.Normalize. Its Tools are those that m names, which package tools is to add:
// this one looks at no file. What changes nothing stands in its Notes. It returns every
// fault at once, each a *[policy.Fault] with the place of the value; one of them is a grant that makes the manifest itself writable.
func (m *Manifest) Policy(ctx Context) (policy.Policy, error) {
	b := &builder{faults: faults{file: m.name()}, Manifest: m, ctx: ctx}
	raw, err := b.raw()
	if err != nil {
		return policy.Policy{}, err
	}
	b.places()
	b.capabilities()
	b.narrow()
	p, base := m.Wishes, policy.Default(ctx.home())
	p.FS, p.Home, p.Limits, p.Notes = base.FS, base.Home, base.Limits, base.Notes
	p.Require, p.Env.Pass, p.Seccomp.Deny = sorted(p.Require), sorted(p.Env.Pass), sorted(p.Seccomp.Deny)
	if b.Audit != "" {
		p.Audit = []string{b.file(b.Audit, "audit")}
	}
	for i, written := range b.ProtectPaths {
		if place := b.file(written, indexed("protect_paths", i)); place != "" {
			p.ProtectPaths = append(p.ProtectPaths, place)
		}
	}
	for i, word := range b.Tools {
		if strings.Contains(word, "/") {
			word = b.file(word, indexed("tools", i))
		}
		p.Tools = append(p.Tools, word)
	}
	b.amounts(&p)
	b.net(&p)
	p.Seccomp.Raw = raw
	p.Dir = b.dir()
	for _, g := range b.grants {
		p.FS = append(p.FS, g.FS)
	}
	b.self(p)
	slices.SortFunc(b.notes, func(x, y policy.Note) int { return strings.Compare(x.String(), y.String()) })
	p.Notes = append(p.Notes, slices.Compact(b.notes)...)
	p = b.home(p)
	if err := b.err(); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

// builder is a policy in the making.
type builder struct {
	faults
	*Manifest
	ctx           Context
	grants        []grant
	notes         []policy.Note
	network       bool     // a capability asks for it
	wide          bool     // for all of it
	hints         []string // for these alone
	code          string   // directory of the program
	workspace, at string   // on the host, inside
}

// grant is an entry, with the words and key that ask for it.
type grant struct {
	policy.FS
	said, key string
}

func (b *builder) note(feature, loss, fix string) {
	b.notes = append(b.notes, policy.Note{Feature: feature, Loss: loss, Fix: fix})
}

func (b *builder) fault(key, problem, fix string) { b.add(b.Manifest.places[key], key, problem, fix) }

// file resolves a path, and gives nothing where it cannot.
func (b *builder) file(written, key string) string {
	problem, fix := hint(written)
	var abs string
	if problem == "" {
		abs, problem, fix = b.ctx.resolve(written)
	}
	if problem != "" {
		b.fault(key, problem, fix)
	}
	return abs
}

// grant adds an entry whose source is said, shown at its own place unless it has another.
func (b *builder) grant(g grant) {
	if g.Source = b.file(g.said, g.key); g.Source == "" {
		return
	}
	if g.Dest == "" {
		g.Dest = g.Source
	}
	g.NoFollow = true
	if err := g.Check(); err != nil {
		b.fault(g.key, err.Error(), "name what is needed in it, or leave it out")
		return
	}
	if g.Dest == "/tmp" || g.Dest == "/var/tmp" {
		b.note("tmp", "the host's "+g.Source+" is shown at "+g.Dest+", in place of a private one", "name a directory below it")
	}
	b.grants = append(b.grants, g)
}

// places grants what the manifest's own keys name.
func (b *builder) places() {
	if b.Workspace != "" {
		g := grant{policy.FS{Kind: policy.Bind, Write: true, Directory: true, Why: "workspace"}, b.Workspace, "workspace"}
		if b.WorkspaceAt != "same" {
			g.Dest = b.WorkspaceAt
		}
		b.grant(g)
		if n := len(b.grants); n > 0 {
			b.workspace, b.at = b.grants[n-1].Source, b.grants[n-1].Dest
		}
	}
	if b.Code != "" {
		if file := b.file(b.Code, "code"); file != "" {
			b.code = path.Dir(file)
			b.grant(grant{policy.FS{Kind: policy.Bind, Why: "code"}, b.code, "code"})
		}
	}
	b.list("shared_dirs", b.SharedDirs, policy.FS{Kind: policy.Bind, Write: true})
	b.list("sockets", b.Sockets, policy.FS{Kind: policy.Socket})
	b.list("extra_ro", b.ExtraRO, policy.FS{Kind: policy.Bind})
	b.list("extra_rw", b.ExtraRW, policy.FS{Kind: policy.Bind, Write: true})
	b.list("force_rw", b.ForceRW, policy.FS{Kind: policy.Bind, Write: true, Force: true})
	b.mounts()
}

func (b *builder) list(key string, all []string, like policy.FS) {
	like.Optional, like.Why = true, key
	for i, written := range all {
		b.grant(grant{like, written, indexed(key, i)})
	}
}

// capabilities opens what each of them names. They are grants: of two at one place the wider holds.
func (b *builder) capabilities() {
	before := len(b.grants)
	for i, c := range b.Manifest.Capabilities {
		key := indexed("capabilities", i)
		switch c.Kind {
		case "fs":
			b.fs(c, key)
		case "network":
			b.reach(c, key)
		case "code": // running programs is what a sandbox is for
		default:
			b.note("capabilities", c.Kind+":"+c.Mode+" changes nothing", "the families fs, network and code do")
		}
	}
	mine := b.grants[before:]
	for i := range mine {
		mine[i].Write = slices.ContainsFunc(mine, func(g grant) bool { return g.Write && g.Source == mine[i].Source })
	}
}

// home gives p the home directory that the manifest names.
func (b *builder) home(p policy.Policy) policy.Policy {
	switch b.Home {
	case "", policy.HomePrivate:
		return p
	case policy.HomeNone:
		return p.WithHome(policy.HomeNone)
	case policy.HomeKeep:
		if p.KeepHome = b.workspace; b.workspace == "" {
			b.fault("home", "there is no workspace to keep it for", "add workspace, or name a directory")
		}
		return p
	}
	if dir := b.file(b.Home, "home"); dir != "" {
		return p.WithHomeDir(dir, "home")
	}
	return p
}

// dir is the working directory: the one asked for, or the first of the workspace, the code's directory and the root.
func (b *builder) dir() string {
	for _, dir := range []string{b.Chdir, b.at, b.code} {
		if dir != "" {
			return dir
		}
	}
	return "/"
}

func (b *builder) amounts(p *policy.Policy) {
	for _, l := range b.Wishes.Limits {
		*p = p.WithLimit(l.Name, l.Value)
	}
	order := func(l policy.Limit) int {
		return slices.IndexFunc(policy.LimitTable, func(r policy.LimitRow) bool { return r.Name == l.Name })
	}
	slices.SortFunc(p.Limits, func(x, y policy.Limit) int { return order(x) - order(y) })
	p.Timeout, p.KillGrace = cmp.Or(p.Timeout, DefaultTimeout), cmp.Or(p.KillGrace, policy.DefaultKillGrace)
}

func (b *builder) net(p *policy.Policy) {
	p.Network = p.Network.Mode()
	switch {
	case b.wide && b.Wishes.Network == "":
		p.Network = policy.NetworkHost
	case b.network && b.Wishes.Network == "", !b.wide && p.Network == policy.NetworkAllow:
		p.Network, p.Allow = policy.NetworkAllow, append(p.Allow[:len(p.Allow):len(p.Allow)], b.hints...)
	case b.wide && p.Network == policy.NetworkAllow:
		b.note("capabilities", "one asks for the whole network, and \"network\" lists what can be reached; there is no more", "remove one of them")
	case len(b.hints) > 0 && p.Network == policy.NetworkHost:
		b.note("capabilities", "the hints of one that asks for the network are not enforced; \"network\" says host", "leave \"network\" out")
	case b.network && p.Network == policy.NetworkNone:
		b.note("capabilities", "one asks for the network, and \"network\" says none; there is none", "remove one of them")
	}
}

// raw reads the BPF file that the manifest names.
func (b *builder) raw() (raw []byte, err error) {
	if b.RawFilter == "" {
		return nil, nil
	}
	path := b.file(b.RawFilter, "seccomp.raw")
	if err := b.err(); err != nil {
		return nil, err
	}
	if b.ctx.Read != nil {
		if raw, err = b.ctx.Read(path); err != nil {
			return nil, fmt.Errorf("%s: seccomp.raw: %w", b.Manifest.file, err)
		}
	}
	if len(raw) == 0 || len(raw)%8 != 0 {
		b.fault("seccomp.raw", fmt.Sprintf("the file holds %d bytes", len(raw)), "a filter is a positive number of 8 byte instructions")
	}
	return raw, nil
}

// self refuses a manifest that its own program could rewrite for the next run. What stands read-only in a writable directory is no
// way out: its parents could be renamed. What is asked for read-only as well is read-only: see policy.Normalize.
func (b *builder) self(p policy.Policy) {
	for _, g := range b.grants {
		readOnly := func(e policy.FS) bool {
			return e.Kind == policy.Bind && !e.Write && e.Dest == g.Dest && (!e.System || e.Source == g.Source)
		}
		if g.Write && g.Kind == policy.Bind && b.ctx.Path != "" && policy.Inside(b.ctx.Path, g.Source) && !slices.ContainsFunc(p.FS, readOnly) {
			b.fault(g.key, g.Source+" would be writable, and this manifest lies in it: the program could widen its own next run",
				"move the manifest out of it, or grant less")
		}
	}
}

func sorted(names []string) []string {
	all := slices.Clone(names)
	slices.Sort(all)
	return slices.Compact(all)
}
