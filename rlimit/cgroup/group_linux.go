package cgroup

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// prefix is how the names of our groups begin.
const prefix = "nsrun-"

// Group is one group, in each of the trees that its limits need.
type Group struct {
	dirs []*dir
}

// dir is a group in one tree.
type dir struct {
	tree   Tree
	parent *os.File
	name   string
	own    *os.File // locked
	procs  *os.File
	left   *dir // where this process has gone meanwhile
}

func (d *dir) path() string { return path.Join(d.tree.Dir, d.name) }

// Make makes a group with its limits, which nobody is in yet. Nothing is left of it if it fails. An error is a [*fault.Error] of the stage
// "cgroup" with the tree's directory as its path. Its op is the controller whose limit could not be set, if it was only that, or else "make".
func Make(trees []Tree) (*Group, error) {
	g := &Group{}
	for _, t := range trees {
		d, op, err := makeDir(t)
		if d != nil {
			g.dirs = append(g.dirs, d)
		}
		if err != nil {
			return nil, &fault.Error{Stage: "cgroup", Op: op, Path: t.Dir, Err: errors.Join(err, g.Remove())}
		}
	}
	return g, nil
}

func makeDir(t Tree) (d *dir, op string, err error) {
	d, op = &dir{tree: t}, "make"
	if d.parent, err = os.OpenFile(t.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
		return nil, op, err
	}
	sweep(d.parent)
	if err := d.enable(); err != nil {
		return d, op, err
	}
	if err := d.make(); err != nil {
		return d, op, err
	}
	for _, f := range t.Files {
		if err := d.set(f); err != nil {
			if f.Disk {
				op = "io"
			}
			return d, op, fmt.Errorf("%s: write %s: %w", d.path(), f.Value, err)
		}
	}
	d.procs, err = openAt(d.own, "cgroup.procs", unix.O_WRONLY)
	return d, op, err
}

func (d *dir) set(f File) error {
	values := []string{f.Value}
	if f.Disk {
		disks, err := disks(os.DirFS("/sys/block"))
		if err != nil {
			return err
		}
		values = nil
		for _, n := range disks {
			values = append(values, n+" "+f.Value)
		}
	}
	for _, v := range values {
		err := write(d.own, f.Name, v)
		switch {
		case f.Optional && errors.Is(err, unix.ENOENT):
		case f.Disk && (errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)): // it has been taken out meanwhile
		case err != nil:
			return err
		}
	}
	return nil
}

// make makes the directory, and locks it. Another run can have taken it for a dead one's between the two.
func (d *dir) make() error {
	for range 10 {
		name := prefix + strconv.FormatUint(rand.Uint64(), 16)
		// Another user who could open it could keep its lock: this would wait forever, and nobody could remove it.
		if err := unix.Mkdirat(int(d.parent.Fd()), name, 0o700); err != nil {
			return &os.PathError{Op: "mkdir", Path: path.Join(d.tree.Dir, name), Err: err}
		}
		own, err := openAt(d.parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = unix.Flock(int(own.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			return err
		}
		if again, err := openAt(d.parent, name, unix.O_PATH); err == nil {
			again.Close()
			d.name, d.own = name, own
			return nil
		}
		own.Close()
	}
	return fmt.Errorf("%s: groups that are made there vanish", d.tree.Dir)
}

// enable gives the children of a group of version 2 their controllers. This process leaves it for a child of its own, if it must.
func (d *dir) enable() error {
	if len(d.tree.Enable) == 0 {
		return nil
	}
	if d.tree.Leave {
		left := &dir{tree: Tree{Dir: d.tree.Dir}, parent: d.parent}
		if err := left.make(); err != nil {
			return err
		}
		d.left = left
		if err := write(left.own, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
			return fmt.Errorf("%s: %w", left.path(), err)
		}
	}
	if err := write(d.parent, "cgroup.subtree_control", "+"+strings.Join(d.tree.Enable, " +")); err != nil {
		return fmt.Errorf("%s: enable %s: %w", d.tree.Dir, strings.Join(d.tree.Enable, " "), err)
	}
	return nil
}

// Born returns the descriptor of the group's directory in a tree of version 2, for clone3(2); -1 if there is none.
func (g *Group) Born() int {
	for _, d := range g.dirs {
		if d.tree.Version == 2 {
			return int(d.own.Fd())
		}
	}
	return -1
}

// Lower appends the calls by which the process that runs p joins the group, in the trees that it is not born in. What it starts is born there.
// Without a group, to be printed, the calls name no descriptor.
func Lower(p *sys.Program, trees []Tree, g *Group, born bool) {
	for i, t := range trees {
		if born && t.Version == 2 {
			continue
		}
		procs, where := -1, path.Join(t.Dir, prefix+"...")
		if g != nil {
			procs, where = int(g.dirs[i].procs.Fd()), g.dirs[i].path()
		}
		p.At(sys.Step{Stage: "cgroup", Op: "join", Path: where})
		p.Add(unix.SYS_WRITE, sys.Int(procs), sys.Bytes([]byte("0")), sys.Int(1)).Min(1)
	}
}

// Made says where the group is, for [Attach].
func (g *Group) Made() (trees []Tree) {
	for _, d := range g.dirs {
		trees = append(trees, Tree{Version: d.tree.Version, Dir: d.path()})
	}
	return trees
}

// Attach opens a group that another process has made, in which some process lives.
func Attach(made []Tree) (*Group, error) {
	g := &Group{}
	for _, t := range made {
		d := &dir{tree: Tree{Version: t.Version, Dir: path.Dir(t.Dir)}, name: path.Base(t.Dir)}
		var err error
		if d.parent, err = os.OpenFile(d.tree.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
			return g, err
		}
		g.dirs = append(g.dirs, d)
		if d.own, err = openAt(d.parent, d.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
			return g, err
		}
		if err = unix.Flock(int(d.own.Fd()), unix.LOCK_EX); err != nil {
			return g, err
		}
	}
	return g, nil
}

// Read returns what has happened in the group.
func (g *Group) Read() (e Evidence) {
	for _, d := range g.dirs {
		if d.own != nil {
			read(d.own, d.tree.Version, &e)
		}
	}
	return e
}

// read is without os.File and its memory, as a session asks before each command. The files are short: a read gives all of one.
func read(at *os.File, version int, e *Evidence) {
	var text [4096]byte
	for _, s := range sources {
		if s.version != version {
			continue
		}
		fd, err := unix.Openat(int(at.Fd()), s.file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, err := unix.Read(fd, text[:])
		unix.Close(fd)
		if err != nil {
			continue
		}
		if n, ok := value(string(text[:n]), s.word); ok {
			*s.into(e) = n / s.unit
		}
	}
}

// Remove ends what is left in the group, removes it, and gives up its locks.
func (g *Group) Remove() error {
	var errs []error
	for i := len(g.dirs) - 1; i >= 0; i-- {
		errs = append(errs, g.dirs[i].remove())
	}
	g.dirs = nil
	return errors.Join(errs...)
}

// Close gives up the locks, and leaves the group to those in it, and to whoever removes what dead runs have left.
func (g *Group) Close() {
	for _, d := range g.dirs {
		d.close()
	}
}

func (d *dir) close() {
	for _, f := range []*os.File{d.procs, d.own} {
		if f != nil {
			f.Close()
		}
	}
	if d.left != nil {
		d.left.close()
	}
	d.parent.Close()
}

func (d *dir) remove() error {
	defer d.close()
	err := d.removeOwn()
	if d.left == nil {
		return err
	}
	errs := []error{err, write(d.parent, "cgroup.subtree_control", "-"+strings.Join(d.tree.Enable, " -")),
		write(d.parent, "cgroup.procs", strconv.Itoa(os.Getpid())), d.left.removeOwn()}
	return errors.Join(errs...)
}

// removeOwn ends whatever is still there, and waits for the last process to be gone, as the kernel counts: a few milliseconds after it has been
// waited for.
func (d *dir) removeOwn() (err error) {
	if d.name == "" {
		return nil
	}
	for i := range 200 {
		err = unix.Unlinkat(int(d.parent.Fd()), d.name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		if i > 2 {
			d.killAll()
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "rmdir", Path: d.path(), Err: err}
	}
	return nil
}

// killAll kills every process of the group: at once where the kernel can (Linux 5.14), else one by one.
func (d *dir) killAll() {
	if d.own == nil || write(d.own, "cgroup.kill", "1") == nil {
		return
	}
	f, err := openAt(d.own, "cgroup.procs", unix.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// sweep removes what dead runs have left beside ours. A group with a process in it cannot be removed.
func sweep(parent *os.File) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", parent.Fd()))
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		f, err := openAt(parent, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = unix.Unlinkat(int(parent.Fd()), e.Name(), unix.AT_REMOVEDIR)
		}
		f.Close()
	}
}

func openAt(at *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(at.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path.Join(at.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), path.Join(at.Name(), name)), nil
}

func write(at *os.File, name, value string) error {
	f, err := openAt(at, name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = unix.Write(int(f.Fd()), []byte(value))
	if err != nil {
		return &os.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	return nil
}
