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

// prefix begins the name of every group that this package makes.
const prefix = "nsrun-"

// Group is one control group, with a directory in each tree that its limits need.
type Group struct {
	dirs []*dir
}

// dir is the group's directory in one tree.
type dir struct {
	tree   Tree
	parent *os.File
	name   string
	own    *os.File // locked with flock(2)
	procs  *os.File
	left   *dir // the group that this process has moved to, if it had to leave its own
}

func (d *dir) path() string { return path.Join(d.tree.Dir, d.name) }

// Make makes a group with its limits and without processes. If it fails, it removes what it has made. The error is a [*fault.Error] of
// stage "cgroup" whose path is the tree's directory. Its op is "io" if a limit on a disk could not be set, and otherwise "make".
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

// makeDir makes the group in one tree. op is the op of the error.
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

// set writes one limit. A disk's limit is written once for each disk.
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
		case f.Disk && (errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)): // the disk has been removed since
		case err != nil:
			return err
		}
	}
	return nil
}

// make makes the directory and locks it. Between the two, another run may take it for the group of a dead run and remove it, so make then
// tries again.
func (d *dir) make() error {
	for range 10 {
		name := prefix + strconv.FormatUint(rand.Uint64(), 16)
		// Mode 0700: another user who could open the directory could hold its lock, and then make would wait for ever and no run could
		// remove the group.
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

// enable enables the tree's controllers for the children of the parent (version 2). If it must, it first moves this process to a child
// group of its own.
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

// Born returns the descriptor of the group's directory in a tree of version 2, for clone3(2) with CLONE_INTO_CGROUP, or -1.
func (g *Group) Born() int {
	for _, d := range g.dirs {
		if d.tree.Version == 2 {
			return int(d.own.Fd())
		}
	}
	return -1
}

// Lower appends the calls by which the process that runs p joins the group. Its children then start in the group. If born is set, clone3
// has already started the process in the group of version 2. g may be nil for a program that is only printed; its calls then name no
// descriptor.
func Lower(p *sys.Program, trees []Tree, g *Group, born bool) {
	for i, t := range trees {
		if born && t.Version == 2 {
			continue
		}
		where := path.Join(t.Dir, prefix+"...")
		if g != nil {
			where = g.dirs[i].path()
		}
		p.At(sys.Step{Stage: "cgroup", Op: "join", Path: where})
		p.Add(unix.SYS_WRITE, sys.Int(g.Procs(i)), sys.Bytes([]byte("0")), sys.Int(1)).Min(1)
	}
}

// Procs returns the descriptor of cgroup.procs in tree i, or -1 for a group that is only planned.
func (g *Group) Procs(i int) int {
	if g == nil {
		return -1
	}
	return int(g.dirs[i].procs.Fd())
}

// Made returns the directories of the group, for [Attach].
func (g *Group) Made() (trees []Tree) {
	for _, d := range g.dirs {
		trees = append(trees, Tree{Version: d.tree.Version, Dir: d.path()})
	}
	return trees
}

// Attach opens a group that another process has made and that still has processes. It takes over the lock.
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

// Read returns what the group's files report.
func (g *Group) Read() (e Evidence) {
	for _, d := range g.dirs {
		if d.own != nil {
			read(d.own, d.tree.Version, &e)
		}
	}
	return e
}

// read stores the numbers of one directory in e. It avoids os.File, because a session reads before each command. The files are short, so
// one read returns a whole file.
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

// Remove kills the processes that are left in the group, removes the group, and releases its locks.
func (g *Group) Remove() error {
	var errs []error
	for i := len(g.dirs) - 1; i >= 0; i-- {
		errs = append(errs, g.dirs[i].remove())
	}
	g.dirs = nil
	return errors.Join(errs...)
}

// Close releases the locks and leaves the group to the processes in it. A later run removes the group when they have ended.
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

// remove removes the directory. If this process had to leave the parent group, it moves back.
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

// removeOwn removes the directory. It kills the processes that are left and tries again until the kernel has removed the last one from its
// count, some milliseconds after that process was waited for.
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

// killAll kills every process of the group: with cgroup.kill (Linux 5.14), and otherwise one by one.
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

// sweep removes the groups that dead runs have left in parent: those without a lock and without a process. rmdir fails for a group with a
// process.
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

// openAt opens name below the directory at.
func openAt(at *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(at.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path.Join(at.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), path.Join(at.Name(), name)), nil
}

// write writes value to the file name below the directory at, in one write(2).
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
