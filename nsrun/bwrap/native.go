package bwrap

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// useNative is the way out of every loss that nsrun itself does not have.
const useNative = "run it with nsrun's own backend"

// lose notes that bubblewrap cannot carry something, at a place if there is one. The same loss at several places is one note.
func (r *renderer) lose(feature, what, fix, place string) {
	if place == "" {
		r.losses = append(r.losses, plan.Note{Feature: feature, Loss: what, Fix: fix})
		return
	}
	at := func(n plan.Note) bool { return n.Feature == feature && strings.HasPrefix(n.Loss, what+": ") }
	if i := slices.IndexFunc(r.losses, at); i >= 0 {
		r.losses[i].Loss += ", " + place
	} else {
		r.losses = append(r.losses, plan.Note{Feature: feature, Loss: what + ": " + place, Fix: fix})
	}
}

// confinement notes the layers that bubblewrap knows nothing of.
func (r *renderer) confinement() {
	p := r.plan
	if p.Landlock != nil {
		r.lose("landlock", "no second check on files and ports: what is mounted is all that confines", useNative, "")
	}
	for _, l := range p.Limits {
		r.lose("limits", "not bounded", "set limits around bubblewrap, with prlimit or systemd-run", l.String())
	}
	if s := p.Seccomp; s != nil {
		if s.Filter != "" && s.Filter != policy.SeccompOff {
			r.lose("seccomp", "the filter is not installed", "give it as a raw one", s.Filter)
		}
		if len(s.Deny) > 0 {
			r.lose("seccomp", "not refused", useNative, strings.Join(s.Deny, ", "))
		}
		if len(s.Raw) > 0 {
			r.option("--add-seccomp-fd", r.blob(s.Raw))
		}
	}
}

// native writes a plan of nsrun's own as near as bubblewrap comes to it.
func (r *renderer) native() {
	p := r.plan
	r.namespaces()
	r.ids()
	if slices.Contains(p.Namespaces, plan.Uts) && p.Hostname != "" {
		r.option("--hostname", p.Hostname)
	}
	r.option("--die-with-parent")
	if !r.inSession {
		r.option("--new-session")
	}
	r.option("--cap-drop", "ALL")
	r.environment()
	if p.Dir != "" {
		r.option("--chdir", p.Dir)
	}
	for i, op := range p.Mounts {
		if slices.ContainsFunc(p.Mounts[:i], func(above mounts.Op) bool { return holds(above, op.Dest) }) {
			r.lose("mount_points", "made on the host if it has none there", useNative, op.Dest)
		}
		r.nativeOp(op, inPrivate(p.Mounts[:i], op.Dest))
	}
	r.args = append(r.args, r.late...)
	if !slices.ContainsFunc(p.Mounts, func(op mounts.Op) bool { return op.Dest == "/" }) {
		r.option("--remount-ro", "/") // what holds the mount points is read-only once they are there
	}
	if p.Terminal {
		r.lose("terminal", "no terminal of the sandbox's own", "run the command under script(1)", "")
	}
}

// holds says whether a place lies in what can be written to on the host.
func holds(above mounts.Op, dest string) bool {
	return above.Kind == mounts.Bind && !above.Flags.Has(mounts.ReadOnly) && policy.Inside(dest, above.Dest) && dest != above.Dest
}

// inPrivate reports whether a place lies in a directory in memory that the command can write to.
func inPrivate(ops []mounts.Op, dest string) bool {
	for _, op := range slices.Backward(ops) {
		if dest != op.Dest && policy.Inside(dest, op.Dest) {
			return op.Kind == mounts.Tmpfs && !op.Flags.Has(mounts.ReadOnly)
		}
	}
	return false
}

// nativeOp writes one operation of a tree that is not compat, and what it would have done besides. private reports whether it lies in a directory in memory
// that the command can write to.
func (r *renderer) nativeOp(op mounts.Op, private bool) {
	for _, check := range unchecked {
		if check.has(op) {
			r.lose(check.feature, check.loss, check.fix, op.Dest)
		}
	}
	op.Optional = op.Optional || op.KeepLink
	switch op.Kind {
	case mounts.Mask:
		return // noted
	case mounts.Dir, mounts.Tmpfs:
		op.Mode = cmp.Or(op.Mode, 0o755)
	case mounts.File:
		// A nameless file can stand where the host has one already, and is not written to the host.
		op.Kind, op.Mode, op.Flags = mounts.Data, cmp.Or(op.Mode, 0o644), slices.Concat(op.Flags, mounts.Flags{mounts.NoSuid, mounts.NoDev})
		if !private && !op.Flags.Has(mounts.ReadOnly) {
			op.Flags = append(op.Flags, mounts.ReadOnly)
		}
	}
	r.draw(op)
	if op.Kind == mounts.Dev || op.Kind == mounts.Tmpfs && op.Flags.Has(mounts.ReadOnly) {
		r.late = append(r.late, "--remount-ro", op.Dest)
	}
}

// unchecked lists what operations of nsrun's ask for and bubblewrap does not do.
var unchecked = []struct {
	has                func(mounts.Op) bool
	feature, loss, fix string
}{
	{func(op mounts.Op) bool { return op.Flags.Has(mounts.NoExec) }, "noexec", "programs can be run from there", useNative},
	{func(op mounts.Op) bool { return op.Kind == mounts.Tmpfs && op.Inodes > 0 }, "inodes", "any number of files can be made there", useNative},
	{func(op mounts.Op) bool { return op.NoFollow }, "no_follow", "symlinks on the way to the source are followed, whoever made them", useNative},
	{func(op mounts.Op) bool { return len(op.Within) > 0 }, "within", "the source may lead anywhere", useNative},
	{func(op mounts.Op) bool { return op.Only != "" }, "type", "the source may be of any type", useNative},
	{func(op mounts.Op) bool { return op.KeepLink }, "keep_link", "a symlink is shown as what it leads to", useNative},
	{func(op mounts.Op) bool { return op.FollowDest }, "follow_dest", "bubblewrap stops if the host has a symlink there", "name the place that the symlink leads to"},
	{func(op mounts.Op) bool { return op.Kind == mounts.File && op.Optional }, "optional", "bubblewrap stops if the host has no such file and none can be made",
		"leave the file out, or make it on the host"},
	{func(op mounts.Op) bool { return op.Kind == mounts.Mask }, "mask", "not covered, since only a look at the host tells by what", useNative},
	{func(op mounts.Op) bool { return op.Kind == mounts.Proc && op.Source == "" }, "proc_masks", "what tells of the host's kernel is not covered", useNative},
}
