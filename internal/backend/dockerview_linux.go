package backend

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// boxView is a plan's file system as a container has it. The container's image holds only the symlinks and empty directories of the root.
// Its name depends on its contents: hosts have one or two layouts, so there are one or two images. pid 1 makes the entries below a tmpfs.
type boxView struct {
	cli       ContainerCLI
	id        plan.Identity
	points    []point
	links     []made
	late      []made
	files     [][]byte // contents of the files in the private directory
	modes     []uint32
	args      []string
	locations []Location
	losses    []plan.Note
	mounts    []mounts.Mount
}

// point is a mount of the container.
type point struct {
	op   mounts.Op
	file int // index into files, or -1
}

// made is a directory to make, or a symlink if it has a target.
type made struct {
	Path   string `json:"path"`
	Target string `json:"target,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
}

// newBoxView returns the view for a plan's operations.
func newBoxView(ops []mounts.Op, cli ContainerCLI, id plan.Identity, resolver mounts.Resolver) (*boxView, error) {
	v := &boxView{cli: cli, id: id}
	var err error
	if v.mounts, err = resolver.Mountinfo(); err != nil {
		return nil, &Error{Stage: "mount", Err: err}
	}
	for i, op := range ops {
		if err := v.add(op); err != nil {
			return nil, &Error{Stage: "mount", Index: i + 1, Op: string(op.Kind), Path: op.Dest, Err: err, Hint: "leave it out, or use --backend native"}
		}
	}
	// Docker would show /sys, which nsrun's sandboxes do not have.
	v.cover(mounts.Op{Kind: mounts.Tmpfs, Dest: "/sys", Flags: plainRead, Size: 4096})
	v.cover(mounts.Op{Kind: mounts.Tmpfs, Dest: "/sys/fs/cgroup", Flags: plainRead, Size: 4096})
	for _, p := range v.points {
		if err := v.render(p); err != nil {
			return nil, &Error{Stage: "mount", Op: string(p.op.Kind), Path: p.op.Dest, Err: err, Hint: "leave it out, or use --backend native"}
		}
	}
	return v, nil
}

// add adds one operation to the view.
func (v *boxView) add(op mounts.Op) error {
	if op.Dest == "/" {
		return errors.New("the root of a container cannot be a part of the host")
	}
	switch op.Kind {
	case mounts.Bind:
		v.cover(op)
		return v.submounts(op)
	case mounts.Tmpfs:
		v.cover(op)
	case mounts.File:
		v.files, v.modes = append(v.files, op.Data), append(v.modes, op.Mode)
		v.cover(op)
		v.points[len(v.points)-1].file = len(v.files) - 1
	case mounts.Proc, mounts.Dev:
		if want := "/" + string(op.Kind); op.Dest != want {
			return fmt.Errorf("a container has it at %s alone", want)
		}
	case mounts.Dir:
		return v.make(made{Path: op.Dest, Mode: op.Mode})
	case mounts.Symlink:
		return v.make(made{Path: op.Dest, Target: op.Source})
	default:
		return fmt.Errorf("a container has no such operation: %w", errors.ErrUnsupported)
	}
	return nil
}

// cover adds op and removes the entries at its path and below, which it hides. Container engines mount in the order of depth, not in the
// plan's order.
func (v *boxView) cover(op mounts.Op) {
	v.points = slices.DeleteFunc(v.points, func(p point) bool { return stages.Inside(p.op.Dest, op.Dest) })
	v.late = slices.DeleteFunc(v.late, func(m made) bool { return stages.Inside(m.Path, op.Dest) })
	v.links = slices.DeleteFunc(v.links, func(m made) bool { return stages.Inside(m.Path, op.Dest) })
	v.points = append(v.points, point{op, -1})
}

// submounts adds the mounts below a bind's source, because an engine's bind is not recursive: see bind.
func (v *boxView) submounts(op mounts.Op) error {
	for _, m := range mounts.Below(v.mounts, op.Source) {
		st, err := statNoLinks(m.Point)
		if err != nil {
			v.losses = append(v.losses, plan.Note{Feature: "fs", Loss: fmt.Sprintf("%s, which is mounted below %s, is left out: %v", m.Point, op.Source, err)})
			continue
		}
		if t := st.Mode & unix.S_IFMT; t != unix.S_IFDIR && t != unix.S_IFREG {
			continue
		}
		sub := op
		sub.Source, sub.Dest = m.Point, path.Join(op.Dest, strings.TrimPrefix(m.Point, strings.TrimSuffix(op.Source, "/")))
		v.cover(sub)
	}
	return nil
}

// make adds a directory or symlink: to the image, or for pid 1 if it is in a tmpfs. In a directory of the host lowering has found it
// already.
func (v *boxView) make(m made) error {
	if m.Mode == 0 {
		m.Mode = 0o755
	}
	var above *mounts.Op
	for i := range v.points {
		if op := &v.points[i].op; stages.Inside(m.Path, op.Dest) && (above == nil || len(op.Dest) > len(above.Dest)) {
			above = op
		}
	}
	switch {
	case above == nil && (len(m.Path) > 100 || len(m.Target) > 100):
		return errors.New("the name is longer than an image of ours holds (100 bytes)")
	case above == nil:
		v.links = append(v.links, m)
	case above.Kind != mounts.Tmpfs && m.Target == "":
	case above.Kind != mounts.Tmpfs || above.Flags.Has(mounts.ReadOnly):
		return fmt.Errorf("nothing can be made in %s of a container", above.Dest)
	default:
		v.late = append(v.late, m)
	}
	return nil
}

// render appends a mount's arguments. start adds those of mounts whose source is in the private directory.
func (v *boxView) render(p point) error {
	op := p.op
	switch {
	case op.Kind == mounts.Tmpfs:
		return v.tmpfs(op)
	case p.file >= 0:
		return v.cli.speakable(op.Dest)
	}
	if err := errors.Join(v.cli.speakable(op.Dest), v.cli.speakable(op.Source)); err != nil {
		return err
	}
	st, err := statNoLinks(op.Source)
	if err != nil {
		return err
	}
	v.locations = append(v.locations, Location{op.Dest, st.Dev, st.Ino})
	v.args = append(v.args, v.cli.bind(op.Source, op.Dest, op.Flags.Has(mounts.ReadOnly)))
	return nil
}

// tmpfs appends the option for a tmpfs mount.
func (v *boxView) tmpfs(op mounts.Op) error {
	if strings.ContainsAny(op.Dest, ":,") {
		return errors.New("a container has no tmpfs at a path with a colon or comma")
	}
	access := "rw"
	if op.Flags.Has(mounts.ReadOnly) {
		access = "ro"
	}
	options := []string{access, "nosuid", "nodev"}
	if op.Flags.Has(mounts.NoExec) {
		options = append(options, "noexec")
	} else {
		options = append(options, "exec")
	}
	mode := op.Mode
	if mode == 0 {
		mode = 0o755
	}
	if op.Size > 0 {
		options = append(options, fmt.Sprintf("size=%d", op.Size))
	}
	if !v.cli.Podman {
		options = append(options, fmt.Sprintf("uid=%d,gid=%d", v.id.HostUID, v.id.HostGID))
		if op.Inodes > 0 {
			options = append(options, fmt.Sprintf("nr_inodes=%d", op.Inodes))
		}
	} else if access == "rw" { // Podman has neither option, so the tmpfs belongs to root
		mode |= mode >> 6 & 7
		v.losses = append(v.losses, plan.Note{Feature: "tmpfs", Loss: "the number of files in " + op.Dest + " is not bounded, and it may be root's", Fix: "use --backend native"})
	}
	v.args = append(v.args, fmt.Sprintf("--tmpfs=%s:%s,mode=%o", op.Dest, strings.Join(options, ","), mode))
	return nil
}

// image returns a tar of the root's symlinks and directories, and the name of the image that holds it.
func (v *boxView) image() (tar []byte, name string) {
	var b bytes.Buffer
	for _, m := range withParents(v.links) {
		header := make([]byte, 512) // ustar: tar(5)
		kind, size := byte('5'), "00000000000\x00"
		if m.Target != "" {
			kind = '2'
		}
		copy(header[0:], strings.TrimPrefix(m.Path, "/"))
		copy(header[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00", m.Mode&0o7777, 0, 0))
		copy(header[124:], size)
		copy(header[136:], size) // the time: 1970
		copy(header[148:], "        ")
		header[156] = kind
		copy(header[157:], m.Target)
		copy(header[257:], "ustar\x0000")
		sum := 0
		for _, c := range header {
			sum += int(c)
		}
		copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
		b.Write(header)
	}
	b.Write(make([]byte, 1024))
	h := fnv.New128a()
	h.Write(b.Bytes())
	return b.Bytes(), fmt.Sprintf("nsrun-root:%x", h.Sum(nil))
}

// withParents adds the directories above each entry, before it: Docker creates directories that a tar leaves out with the mode 0600.
func withParents(list []made) (out []made) {
	known := map[string]bool{}
	for _, m := range list {
		for dir := range above(m.Path) {
			if !known[dir] && !slices.ContainsFunc(list, func(o made) bool { return o.Path == dir }) {
				out = append(out, made{Path: dir, Mode: 0o755})
			}
			known[dir] = true
		}
		out = append(out, m)
	}
	return out
}
