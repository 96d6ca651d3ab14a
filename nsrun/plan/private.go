package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// PrivatePlace is where a run's private directory can be made: see [Private]. The caller of [Compile] chooses it, as this package looks at no files.
type PrivatePlace struct {
	Dir string // absolute, free of symlinks, and not there yet
	Why string // why there is none, if Dir is empty
}

// Private is a directory of the host that is made for one run, with mode 0700, and removed afterwards. It stands for the private home directory and
// /tmp where there are no mounts to put them at their own places.
type Private struct {
	Dir string `json:"dir"`
	// Within are directories in it, where it is not itself the home directory and the one for temporary files.
	Within []string `json:"within,omitempty"`
	// Links are symlinks in the home directory to what is granted below the host's, so that programs find it below HOME.
	Links []Link `json:"links,omitempty"`
	// Files are files in the home directory that a preset has.
	Files []PrivateFile `json:"files,omitempty"`
	// Agent is the socket of the host's SSH agent. The directory has another one, [AgentSocket], by which the command reaches it through a filter.
	Agent string `json:"agent,omitempty"`
}

// AgentSocket is the name of the socket by which a command reaches the host's SSH agent.
const AgentSocket = "agent"

// PrivateFile is a file at a path below a private directory.
type PrivateFile struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// Link is a symlink at a path below a private directory.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// private moves the home directory and /tmp to a directory that is the run's own on the host: the same one, as each directory that is made and removed
// takes time. A home directory that cannot be written lies beside the temporary files, since Landlock's rights only grow on the way down. One that is
// kept, or given by --home DIR, is used where it lies.
func (c *compiler) private() error {
	c.pol.FS = slices.Clone(c.pol.FS)
	empty := func(dest string) int {
		return slices.IndexFunc(c.pol.FS, func(e policy.FS) bool {
			return e.System && e.Dest == dest && (e.Kind == policy.Tmpfs || e.Kind == policy.Dir)
		})
	}
	home, tmp := empty(c.pol.Home), empty("/tmp")
	switch given := slices.IndexFunc(c.pol.FS, func(e policy.FS) bool { return e.Kind == policy.Bind && e.Dest == c.pol.Home }); {
	case home >= 0 && tmp >= 0 && !c.pol.FS[home].Write:
		c.home, c.tmp = c.own(home, "home"), c.own(tmp, "tmp")
	case home >= 0:
		c.home = c.own(home, "")
		if tmp >= 0 {
			c.tmp = c.home
			c.pol.FS = slices.Delete(c.pol.FS, tmp, tmp+1)
		}
	default:
		if given >= 0 {
			c.home = c.pol.FS[given].Source
			c.pol.FS[given].Dest = c.home
		}
		if tmp >= 0 {
			c.tmp = c.own(tmp, "")
		}
	}
	if home >= 0 && c.plan.Private != nil {
		c.plan.Private.Links, c.plan.Private.Files = c.links(), c.files()
	}
	return nil
}

// agents shows a socket of nsrun's own in the place of the host's SSH agent's, which the command must not reach as it is. There is one agent: what names
// another one is left out.
func (c *compiler) agents() error {
	host := ""
	c.pol.FS = slices.DeleteFunc(slices.Clone(c.pol.FS), func(e policy.FS) bool {
		why, fix := "", "use the backend native"
		switch place := c.req.Private; {
		case !e.Agent:
			return false
		case c.plan.Backend == BackendDocker:
			why = "its filter takes a host that the container shares"
		case c.plan.Backend == BackendLandlock:
			why = "it takes a mount"
		case place.Dir == "":
			why, fix = "there is no place for the filter's socket: "+place.Why, "set XDG_STATE_HOME to a directory of yours that can be written and that no grant shows"
		case host != "" && host != e.Source:
			why, fix = "the agent of "+host+" is shown, and a sandbox has one", "leave out one of them"
		default:
			host = e.Source
			return false
		}
		c.note("tools", "the SSH agent at "+e.Dest+" is not there: "+why, fix)
		c.pol.Env.Set = slices.DeleteFunc(slices.Clone(c.pol.Env.Set), func(v policy.Var) bool { return v.Value == e.Dest })
		return true
	})
	if host == "" {
		return nil
	}
	c.plan.Private = &Private{Dir: c.req.Private.Dir, Agent: host}
	for i := range c.pol.FS {
		// Only the run makes it: a plan is looked at without it. What bounded the host's socket says nothing of this one.
		if e := &c.pol.FS[i]; e.Agent {
			e.Source, e.Within, e.NoFollow, e.Optional, e.Quiet = path.Join(c.plan.Private.Dir, AgentSocket), nil, true, true, true
		}
	}
	return nil
}

// own makes an entry of the view the private directory, or one in it, with the same rights.
func (c *compiler) own(i int, name string) (at string) {
	place := c.req.Private
	if place.Dir == "" {
		n := Note{Feature: "private_tmp", Loss: "the backend landlock has no place for HOME and TMPDIR: " + place.Why, Fix: "set XDG_STATE_HOME to a directory of yours that no grant shows; a container with a read-only root needs a volume at /tmp"}
		said := func(n Note) bool { return n.Feature == "private_tmp" }
		if !slices.ContainsFunc(c.plan.Notes, said) && !slices.ContainsFunc(c.unmet, said) { // the home directory and /tmp share one
			c.lose(n, false)
		}
		return c.pol.FS[i].Dest
	}
	if c.plan.Private == nil {
		c.plan.Private = &Private{Dir: place.Dir}
	}
	at, why := place.Dir, "of this run alone"
	if name != "" {
		at, why = path.Join(at, name), name+" "+why
		c.plan.Private.Within = append(c.plan.Private.Within, name)
	}
	// Only the run makes it: a plan is looked at without it.
	e := &c.pol.FS[i]
	*e = policy.FS{Kind: policy.Bind, Source: at, Dest: at, Write: e.Write, NoExec: e.NoExec, Directory: true, NoFollow: true, System: true, Optional: true, Quiet: true, Why: why}
	return at
}

// below is how paths in the home directory begin, as seen from the private directory.
func (c *compiler) below() string {
	return strings.TrimPrefix(strings.TrimPrefix(c.home, c.plan.Private.Dir)+"/", "/")
}

// files are those that presets have in the home directory. They are no entries of the view then.
func (c *compiler) files() (files []PrivateFile) {
	c.pol.FS = slices.DeleteFunc(c.pol.FS, func(e policy.FS) bool {
		own := e.Kind == policy.File && e.Tool != "" && policy.Inside(e.Dest, c.pol.Home)
		if own {
			files = append(files, PrivateFile{Path: c.below() + e.Dest[len(c.pol.Home)+1:], Data: e.Data})
		}
		return own
	})
	return files
}

// hasFile reports whether a preset has a file of that name in the private home directory.
func (c *compiler) hasFile(name string) bool {
	return c.plan.Private != nil && slices.ContainsFunc(c.plan.Private.Files, func(f PrivateFile) bool { return f.Path == c.below()+name })
}

// links are those to what the policy grants of the host's home directory, without what lies in one that has a link already.
func (c *compiler) links() (links []Link) {
	below := c.below()
	for _, e := range c.pol.FS {
		if !e.System && (e.Kind == policy.Bind || e.Kind == policy.Socket) && e.Dest != c.pol.Home && policy.Inside(e.Dest, c.pol.Home) {
			links = append(links, Link{Path: below + e.Dest[len(c.pol.Home)+1:], Target: e.Dest})
		}
	}
	slices.SortFunc(links, func(a, b Link) int { return strings.Compare(a.Path, b.Path) })
	var outer []Link
	for _, l := range links {
		if !slices.ContainsFunc(outer, func(o Link) bool { return policy.Inside(l.Path, o.Path) }) {
			outer = append(outer, l)
		}
	}
	return outer
}

// inHome is where the command finds what the policy has at a path in the home directory: elsewhere, if that was moved, unless the host's is granted.
func (c *compiler) inHome(place string) string {
	if c.pol.Home == "" || c.home == c.pol.Home || !policy.Inside(place, c.pol.Home) || c.granted(place) {
		return place
	}
	return c.home + place[len(c.pol.Home):]
}

// xdgHomes are the variables of the XDG base directory specification that name places of a user. Without them programs use HOME.
var xdgHomes = []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}

// xdg has the variables that are passed name places in the home directory that the command has.
func (c *compiler) xdg(environ []string) {
	for i, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(xdgHomes, name) && path.IsAbs(value) {
			environ[i] = name + "=" + c.inHome(path.Clean(value))
		}
	}
}

// String gives "/home/me/.local/state/nsrun/run/NAME, removed afterwards; links: project".
func (p *Private) String() string {
	text := p.Dir + ", removed afterwards"
	if len(p.Within) > 0 {
		text += "; with " + strings.Join(p.Within, " ")
	}
	if len(p.Links) > 0 {
		var names []string
		for _, l := range p.Links {
			names = append(names, quote(l.Path))
		}
		text += "; links: " + strings.Join(names, " ")
	}
	if p.Agent != "" {
		text += "; " + AgentSocket + " lists and signs with the keys of the agent at " + quote(p.Agent)
	}
	if len(p.Files) > 0 {
		var names []string
		for _, f := range p.Files {
			names = append(names, quote(f.Path))
		}
		text += "; files: " + strings.Join(names, " ")
	}
	return text
}
