package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"golang.org/x/sys/unix"
)

// The engine "bwrap": a real bubblewrap makes the namespaces and the view, and inside of it nsrun's own binary goes the last mile, since
// bubblewrap knows nothing of Landlock, profiles and limits. A watchdog between nsrun and bubblewrap ends all of it: see watchdog_linux.go.

// ErrNoBwrap means that no bubblewrap is installed.
var ErrNoBwrap = errors.New("no bwrap on PATH that is not nsrun itself")

// FindBwrap returns the path of a real bubblewrap on PATH. Our own binary under that name is passed over.
func FindBwrap() (string, error) {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	name, err := lookPath("bwrap", func(at string) bool {
		found, err := os.Stat(at)
		return err == nil && !os.SameFile(self, found)
	})
	if errors.Is(err, exec.ErrNotFound) {
		err = ErrNoBwrap
	}
	return name, err
}

// insideName is where our binary is seen inside, for the last mile.
const insideName = "/.nsrun"

// Descriptors of the bubblewrap process. What follows them are contents that it reads.
const (
	outerChannel = 3 + iota // a SEQPACKET socket: word from the last mile
	outerOrders             // what the last mile does, as JSON
	outerStderr             // the command's standard error; bubblewrap's own is read by us
	outerData
)

// Orders are what the last mile inside of a bubblewrap is given.
type Orders struct {
	Command  []string       `json:"command"`
	Env      []string       `json:"env"`
	Dir      string         `json:"dir"`
	Dev      string         `json:"dev,omitempty"` // where there are device nodes of the sandbox's own
	Limits   []rlimit.Limit `json:"limits,omitempty"`
	AtMost   []rlimit.Limit `json:"at_most,omitempty"`
	Landlock *plan.Landlock `json:"landlock,omitempty"`
	Seccomp  *plan.Seccomp  `json:"seccomp,omitempty"`
	SelfTest []plan.Act     `json:"self_test,omitempty"`
	Canary   *Canary        `json:"canary,omitempty"`
	Places   []Place        `json:"places,omitempty"` // what must stand where
}

// Outer is a plan as a call of bubblewrap's: its arguments, what it reads, and what is lost by it.
type Outer struct {
	bwrap.Rendered
	Orders []byte // at descriptor outerOrders
	Seen   []mounts.Seen
	Rules  []landlock.PathRule
}

// RenderOuter looks at this host as a run would, and writes p as a call of bubblewrap's. A run whose self-test needs one has a canary.
func RenderOuter(p *plan.Plan, canary *Canary) (*Outer, error) {
	if p.Terminal {
		return nil, &Error{Stage: "terminal", Err: errors.New("the engine bwrap cannot make a terminal"), Hint: "leave out --tty or --backend bwrap"}
	}
	var host mounts.Host
	defer host.Close()
	l, err := Lower(p, &host, fds{report: outerChannel, status: outerOrders}, false)
	if err != nil {
		return nil, wrapLowering(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, &Error{Stage: "bwrap", Op: "look for nsrun's binary", Err: err}
	}
	simple := *p
	simple.Mounts, err = simplify(p, l.Seen, &host)
	if err != nil {
		return nil, err
	}
	simple.Mounts = append([]mounts.Op{{Kind: mounts.Bind, Source: exe, Dest: insideName, Flags: plainRead}}, simple.Mounts...)
	simple.Command = []string{insideName, "last-mile", fmt.Sprint(outerChannel), fmt.Sprint(outerOrders), fmt.Sprint(outerStderr)}
	// The last mile's. Not even the environment stands on a command line, where everybody can read it.
	simple.Landlock, simple.Seccomp, simple.Limits, simple.Env, simple.Dir = nil, nil, nil, nil, "/"
	r, err := bwrap.RenderInSession(&simple, outerData)
	if err != nil {
		return nil, &Error{Stage: "bwrap", Op: "render", Err: err}
	}
	out := &Outer{Rendered: r, Seen: l.Seen}
	out.Losses = slices.DeleteFunc(out.Losses, func(n plan.Note) bool { return carried(p, n.Feature) })
	o := orders(p, l.Seen)
	o.Canary = canary
	if o.Places, err = places(simple.Mounts); err != nil {
		return nil, err
	}
	if o.Landlock != nil {
		out.Rules = o.Landlock.Paths
	}
	out.Orders, err = json.Marshal(o)
	return out, err
}

// carried reports whether a loss of bubblewrap's is made good: by what simplify has looked at, or by the last mile.
func carried(p *plan.Plan, feature string) bool {
	switch feature {
	case "noexec":
		return p.Landlock != nil // no right to execute
	case "proc_masks", "mask", "keep_link", "follow_dest", "no_follow", "within", "type", "optional":
		return true
	}
	return false
}

func orders(p *plan.Plan, seen []mounts.Seen) Orders {
	o := Orders{Dev: devOf(p), Command: p.Command, Env: p.Env, Dir: p.Dir, Limits: p.Limits, AtMost: p.AtMost, Seccomp: p.Seccomp, SelfTest: p.SelfTest}
	if p.Landlock != nil {
		rules := *p.Landlock
		rules.Paths = resolvedRules(p, seen)
		o.Landlock = &rules
	}
	return o
}

func devOf(p *plan.Plan) string {
	for _, op := range p.Mounts {
		if op.Kind == mounts.Dev {
			return op.Dest
		}
	}
	return ""
}

// simplify writes the operations as bubblewrap can carry them out: see settle, with what nsrun covers in a procfs, and parents.
func simplify(p *plan.Plan, seen []mounts.Seen, look mounts.Looker) ([]mounts.Op, error) {
	settled, err := settle(p, seen, look)
	if err != nil {
		return nil, err
	}
	var out []mounts.Op
	for _, op := range settled {
		out = append(out, op)
		if op.Kind == mounts.Proc {
			for _, name := range mounts.ProcMasked() {
				masks, err := mask("/proc/"+name, op.Dest+"/"+name, look)
				if err != nil {
					return nil, err
				}
				out = append(out, masks...)
			}
			id := mounts.BootID(op.Dest)
			if _, err := look.Look("/proc" + strings.TrimPrefix(id.Dest, op.Dest)); err == nil {
				id.Optional = false
				out = append(out, id)
			} else if !mounts.Absent(err) {
				return nil, &Error{Stage: "mount", Op: string(id.Kind), Path: id.Dest, Err: err}
			}
		}
	}
	return parents(out), nil
}

// settle writes the operations as what lowering saw: no symlinks to be kept or refused, nothing optional, masks by their types.
func settle(p *plan.Plan, seen []mounts.Seen, look mounts.Looker) (out []mounts.Op, err error) {
	for i, op := range p.Mounts {
		s := seen[i]
		if s.Missing {
			continue
		}
		op.Dest, op.Optional = s.Dest, false
		switch {
		case s.Link && op.Kind == mounts.Bind:
			at, err := look.Look(op.Source)
			if err != nil {
				return nil, err
			}
			op = mounts.Op{Kind: mounts.Symlink, Source: at.Target, Dest: op.Dest}
		case op.Kind == mounts.Bind:
			op = mounts.Op{Kind: mounts.Bind, Source: s.Source, Dest: op.Dest, Flags: op.Flags}
		case op.Kind == mounts.Mask:
			masks, err := mask(cmp.Or(op.Source, op.Dest), op.Dest, look)
			if err != nil {
				return nil, err
			}
			out = append(out, masks...)
			continue
		}
		out = append(out, op)
	}
	return out, nil
}

// plainRead are the flags of what is there to be read alone.
var plainRead = mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}

// mask covers dest as the host's place is, which for what plans mask is below a bind of the same name: a directory by an empty one,
// anything else by a device that cannot be opened there.
func mask(place, dest string, look mounts.Looker) ([]mounts.Op, error) {
	at, err := look.Look(place)
	switch {
	case mounts.Absent(err):
		return nil, nil
	case err != nil:
		return nil, &Error{Stage: "mount", Op: string(mounts.Mask), Path: dest, Err: err}
	case at.Type() == unix.S_IFDIR:
		return []mounts.Op{{Kind: mounts.Tmpfs, Dest: dest, Flags: plainRead}}, nil
	}
	return []mounts.Op{{Kind: mounts.Bind, Source: "/dev/null", Dest: dest, Flags: plainRead}}, nil
}

// parents puts a Dir before whatever would otherwise get directories above it that only their owner can enter: bubblewrap gives a
// bind's parents the mode 0700.
func parents(ops []mounts.Op) (out []mounts.Op) {
	known, covered := map[string]bool{"/": true}, []string{}
	for _, op := range ops {
		for dir := range above(op.Dest) {
			if known[dir] || slices.ContainsFunc(covered, func(c string) bool { return strings.HasPrefix(dir+"/", c+"/") }) {
				continue
			}
			known[dir] = true
			out = append(out, mounts.Op{Kind: mounts.Dir, Dest: dir, Mode: 0o755})
		}
		known[op.Dest] = true
		if op.Kind == mounts.Bind || op.Kind == mounts.Proc || op.Kind == mounts.Dev {
			covered = append(covered, op.Dest)
		}
		out = append(out, op)
	}
	return out
}

// above yields the directories above dest, outermost first, without the root.
func above(dest string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := 1; i < len(dest); i++ {
			if dest[i] == '/' && !yield(dest[:i]) {
				return
			}
		}
	}
}
