package backend

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"golang.org/x/sys/unix"
)

// With the backend "bwrap" a real bubblewrap makes the namespaces and the mounts. Inside, nsrun's own binary runs the exec stages, because
// bubblewrap does not support Landlock, built-in filters and limits. A watchdog between nsrun and bubblewrap ends the sandbox: see
// watchdog_linux.go.

// ErrNoBwrap means that no bubblewrap is installed.
var ErrNoBwrap = errors.New("no bwrap on PATH that is not nsrun itself")

// FindBwrap returns the path of a real bubblewrap on PATH. It skips nsrun's own binary under that name.
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

// remoteBinary is the path of nsrun's own binary in the sandbox.
const remoteBinary = "/.nsrun"

// Descriptors of the bubblewrap process. From bwrapData on they have contents that it reads.
const (
	bwrapChannel = 3 + iota // a SEQPACKET socket: messages from the exec stages
	bwrapRequest            // a RemoteRequest for the exec stages, as JSON
	bwrapStderr             // the command's standard error; nsrun reads bubblewrap's own
	bwrapData
)

// RemoteRequest is the part of a plan that the exec stages inside another program's sandbox carry out.
type RemoteRequest struct {
	Command   []string               `json:"command"`
	Env       []string               `json:"env"`
	Dir       string                 `json:"dir"`
	Dev       string                 `json:"dev,omitempty"` // the directory with the sandbox's own device nodes
	Limits    []rlimit.Limit         `json:"limits,omitempty"`
	SoftCaps  []rlimit.Limit         `json:"soft_caps,omitempty"`
	Landlock  *plan.Landlock         `json:"landlock,omitempty"`
	Seccomp   *plan.Seccomp          `json:"seccomp,omitempty"`
	Explain   *plan.Explain          `json:"explain,omitempty"`
	SelfTest  []plan.Act             `json:"self_test,omitempty"`
	Target    *stages.SelfTestTarget `json:"target,omitempty"`
	Locations []Location             `json:"locations,omitempty"` // the files that must be at the mount points
}

// BwrapCall is a plan as a bubblewrap command line: its arguments, the contents that it reads, and the losses.
type BwrapCall struct {
	bwrap.Rendered
	Request  []byte // at descriptor bwrapRequest
	Resolved []mounts.Resolved
	Rules    []landlock.PathRule
}

// RenderBwrap resolves p on this host, as a run would, and returns it as a bubblewrap command line. target is for a run with a self-test; a
// preview passes nil.
func RenderBwrap(p *plan.Plan, target *stages.SelfTestTarget) (*BwrapCall, error) {
	if p.Terminal {
		return nil, &Error{Stage: "terminal", Err: errors.New("the backend bwrap cannot make a terminal"), Hint: "leave out --tty or --backend bwrap"}
	}
	var host mounts.Host
	defer host.Close()
	l, err := stages.Lower(p, &host, stages.FDs{Report: bwrapChannel, Status: bwrapRequest}, false)
	if err != nil {
		return nil, wrapLowering(err, p)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, &Error{Stage: "bwrap", Op: "look for nsrun's binary", Err: err}
	}
	simple := *p
	simple.Mounts, err = simplify(p, l.Resolved, &host)
	if err != nil {
		return nil, err
	}
	simple.Mounts = append([]mounts.Op{{Kind: mounts.Bind, Source: exe, Dest: remoteBinary, Flags: plainRead}}, simple.Mounts...)
	simple.Command = []string{remoteBinary, "exec-stages", fmt.Sprint(bwrapChannel), fmt.Sprint(bwrapRequest), fmt.Sprint(bwrapStderr)}
	// The exec stages apply these. The environment, too, stays off the command line, which every process can read.
	simple.Landlock, simple.Seccomp, simple.Limits, simple.Env, simple.Dir = nil, nil, nil, nil, "/"
	r, err := bwrap.RenderInSession(&simple, bwrapData)
	if err != nil {
		return nil, &Error{Stage: "bwrap", Op: "render", Err: err}
	}
	out := &BwrapCall{Rendered: r, Resolved: l.Resolved}
	out.Losses = slices.DeleteFunc(out.Losses, func(n plan.Note) bool { return carried(p, n.Feature) })
	o, err := remoteRequest(p, l.Resolved)
	if err != nil {
		return nil, err
	}
	o.Target = target
	if o.Locations, err = locations(simple.Mounts); err != nil {
		return nil, err
	}
	if o.Landlock != nil {
		out.Rules = o.Landlock.Paths
	}
	out.Request, err = json.Marshal(o)
	return out, err
}

// carried reports whether something else makes up for a loss of bubblewrap: simplify, or the exec stages.
func carried(p *plan.Plan, feature string) bool {
	switch feature {
	case "noexec":
		return p.Landlock != nil // no right to execute
	case "proc_masks", "mask", "keep_link", "follow_dest", "no_follow", "within", "type", "optional":
		return true
	}
	return false
}

// remoteRequest returns the part of a plan that the exec stages carry out.
func remoteRequest(p *plan.Plan, resolved []mounts.Resolved) (RemoteRequest, error) {
	o := RemoteRequest{Dev: stages.DevOf(p), Command: p.Command, Env: p.Env, Dir: p.Dir, Limits: p.Limits, SoftCaps: p.SoftCaps, Seccomp: p.Seccomp, Explain: p.Explain, SelfTest: p.SelfTest}
	if p.Landlock != nil {
		rules := *p.Landlock
		var err error
		if rules.Paths, err = stages.ResolvedRules(p, resolved); err != nil {
			return RemoteRequest{}, &Error{Stage: "landlock", Err: err}
		}
		o.Landlock = &rules
	}
	return o, nil
}

// simplify returns the plan's operations in a form that bubblewrap can carry out: see materialize and parents. It adds the mounts by which
// nsrun covers parts of a procfs.
func simplify(p *plan.Plan, resolved []mounts.Resolved, resolver mounts.Resolver) ([]mounts.Op, error) {
	materialized, err := materialize(p, resolved, resolver)
	if err != nil {
		return nil, err
	}
	var out []mounts.Op
	for _, op := range materialized {
		out = append(out, op)
		if op.Kind == mounts.Proc {
			for _, name := range mounts.ProcMasked() {
				masks, err := mask("/proc/"+name, op.Dest+"/"+name, resolver)
				if err != nil {
					return nil, err
				}
				out = append(out, masks...)
			}
			id := mounts.BootID(op.Dest)
			if _, err := resolver.Stat("/proc" + strings.TrimPrefix(id.Dest, op.Dest)); err == nil {
				id.Optional = false
				out = append(out, id)
			} else if !mounts.Absent(err) {
				return nil, &Error{Stage: "mount", Op: string(id.Kind), Path: id.Dest, Err: err}
			}
		}
	}
	return parents(out), nil
}

// materialize returns the operations as lowering has resolved them: no symlinks to keep or refuse, nothing optional, masks by the types of
// their files.
func materialize(p *plan.Plan, resolved []mounts.Resolved, resolver mounts.Resolver) (out []mounts.Op, err error) {
	for i, op := range p.Mounts {
		s := resolved[i]
		if s.Missing {
			continue
		}
		op.Dest, op.Optional = s.Dest, false
		switch {
		case s.Link && op.Kind == mounts.Bind:
			at, err := resolver.Stat(op.Source)
			if err != nil {
				return nil, err
			}
			op = mounts.Op{Kind: mounts.Symlink, Source: at.Target, Dest: op.Dest}
		case op.Kind == mounts.Bind:
			op = mounts.Op{Kind: mounts.Bind, Source: s.Source, Dest: op.Dest, Flags: op.Flags}
		case op.Kind == mounts.Mask:
			masks, err := mask(cmp.Or(op.Source, op.Dest), op.Dest, resolver)
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

// plainRead are the flags of a mount that is only for reading.
var plainRead = mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}

// mask returns the operation that covers dest: an empty directory over a directory, and over any other file a device that cannot be opened
// there. place is the host's path of the covered file.
func mask(place, dest string, resolver mounts.Resolver) ([]mounts.Op, error) {
	at, err := resolver.Stat(place)
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

// parents adds a Dir operation for each directory that bubblewrap would otherwise create above a bind with the mode 0700, which only its
// owner can enter.
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
