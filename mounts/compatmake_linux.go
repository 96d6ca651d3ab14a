package mounts

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// compatBind binds source, or does nothing if it is nil.
func (l *lowering) compatBind(op Op, source *Stat) error {
	if source == nil {
		l.resolved.Missing = true
		return nil
	}
	dir := source.Type() == unix.S_IFDIR
	dest, err := l.point(op, dir)
	if err != nil {
		return err
	}
	l.mountPending(dest)
	l.part(partBind, op.Dest)
	l.openSource(source.Path, l.src)
	if op.FD != nil {
		if err := l.sameAs(*op.FD, op.Dest); err != nil {
			return err
		}
		l.part(partBind, op.Dest)
	}
	if err := l.attach(op.Flags, source.Path, dest, dir); err != nil {
		return err
	}
	l.mounted(dest, node{origin: host, source: source.Path, dir: dir})
	l.resolved.Dest, l.resolved.Source, l.resolved.File = dest, source.Path, !dir
	return nil
}

// sameAs makes the child compare the file that l.src has open with the one that descriptor fd has open, by device and inode number. The
// path of fd may name another file by then (CVE-2024-42472).
func (l *lowering) sameAs(fd int, dest string) error {
	want, got := new(unix.Stat_t), make([]byte, 144+identity)
	err := error(unix.EBADF)
	if !slices.Contains(l.boundFDs, fd) { // a descriptor counts as closed after its first bind
		l.boundFDs = append(l.boundFDs, fd)
		err = unix.Fstat(fd, want)
	}
	if err != nil {
		return failed(partStat, fmt.Sprint(fd), err)
	}
	le := func(at int, v uint64) {
		for i := range 8 {
			got[at+i] = byte(v >> (8 * i))
		}
	}
	le(144, uint64(want.Dev))
	le(152, want.Ino)
	l.part(partRace, dest)
	l.p.Add(unix.SYS_FSTAT, sys.Of(l.src), sys.Bytes(got))
	l.p.Compare(got, identity, unix.EINVAL)
	return nil
}

// identity is the size of st_dev and st_ino, the first two words of struct stat on amd64 and arm64.
const identity = 16

// compatTmpfs returns the mount options of a tmpfs in a compat tree. Mode 0 is used as it is.
func compatTmpfs(op Op) string {
	options := "mode=" + modeText(op.Mode)
	if op.Size > 0 {
		options += ",size=" + strconv.FormatInt(op.Size, 10)
	}
	if op.Context != "" {
		options += `,context="` + op.Context + `"`
	}
	return options
}

// compatFS mounts a new file system at op's destination.
func (l *lowering) compatFS(op Op, part, fstype, options string, n node) error {
	dest, err := l.point(op, true)
	if err != nil {
		return err
	}
	l.mountPending(dest)
	l.part(part, op.Dest)
	l.mountOn(dest, fstype, options, op.Flags)
	l.mounted(dest, n)
	l.resolved.Dest = dest
	return nil
}

// compatCovered are places below /proc that are made read-only if the child can write to them.
var compatCovered = []string{"sys", "sysrq-trigger", "irq", "bus"}

// compatProc binds the host's procfs and covers compatCovered, or makes a mount point for a new procfs: see mountPending.
func (l *lowering) compatProc(op Op) error {
	if op.Source != "" {
		stat, err := l.realpath(op.Source)
		if err != nil {
			return failed(partSource, op.Source, err)
		}
		bind := op
		bind.Flags = Flags{NoSuid, NoDev}
		if err := l.compatBind(bind, &stat); err != nil {
			return err
		}
		return l.coverProc(op, l.resolved.Dest)
	}
	dest, err := l.point(op, true)
	if err != nil {
		return err
	}
	l.mountPending(dest)
	l.resolved.Dest = dest
	l.pending = append(l.pending, pendingProc{op, dest, l.index})
	if dest == "/" {
		l.mountPending(dest) // the root is opened anew once it is there
		return nil
	}
	l.mounted(dest, procfs)
	return nil
}

// procfs is a new procfs in the view.
var procfs = node{origin: kernel, source: "/proc", dir: true}

// coverProc covers compatCovered in the procfs at dest.
func (l *lowering) coverProc(op Op, dest string) (err error) {
	l.proc = dest
	l.enter(dest)
	for _, name := range compatCovered {
		cover := Op{Kind: Rebind, Dest: join(dest, name), Optional: true, Flags: Flags{ReadOnly, NoSuid, NoDev}}
		l.part(partCover, path.Join(op.Dest, name))
		l.p.Add(unix.SYS_FACCESSAT, sys.AtCWD(), sys.Str(name), sys.Words(unix.W_OK, "W_OK"))
		l.p.Then(func() { err = l.rebind(cover) }, unix.EACCES, unix.ENOENT, unix.EROFS)
		if err != nil {
			return err
		}
	}
	l.enterRoot()
	l.proc = ""
	return nil
}

// compatLinks are the symlinks in /dev, in the order in which they are made.
var compatLinks = []struct{ Name, Target string }{
	{"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"fd", "/proc/self/fd"}, {"core", "/proc/kcore"},
}

// compatDev builds a /dev: a tmpfs with bound device nodes, symlinks, a private devpts and, with op.Source, a console.
func (l *lowering) compatDev(op Op) error {
	tmpfs := Op{Kind: Dev, Dest: op.Dest, Mode: 0o755, Flags: Flags{NoSuid, NoDev}, Context: op.Context}
	if err := l.compatFS(tmpfs, partTmpfs, "tmpfs", compatTmpfs(tmpfs), node{origin: private, dir: true}); err != nil {
		return err
	}
	dest := l.resolved.Dest
	for _, n := range deviceNodes {
		if err := l.devNode(partDevSource, partDevNode, op, "/dev/"+n.Name, join(dest, n.Name)); err != nil {
			return err
		}
	}
	l.part(partSymlink, op.Dest)
	for _, s := range compatLinks {
		l.makeLink(s.Target, join(dest, s.Name))
	}
	l.part(partMkdir, op.Dest)
	l.makeDir(join(dest, "shm"), 0o755)
	l.makeDir(join(dest, "pts"), 0o755)
	l.part(partDevpts, path.Join(op.Dest, "pts"))
	l.mountOn(join(dest, "pts"), "devpts", "newinstance,ptmxmode=0666,mode=620", Flags{NoSuid, NoExec})
	l.mounted(join(dest, "pts"), node{origin: kernel, dir: true})
	l.part(partSymlink, op.Dest)
	l.makeLink("pts/ptmx", join(dest, "ptmx"))
	if op.Source == "" {
		return nil
	}
	return l.devNode(partConsole, partConsole, op, op.Source, join(dest, "console"))
}

// devNode binds a device of the host at dest. open names the step for errors about the device, part the step for errors about dest.
func (l *lowering) devNode(open, part string, op Op, source, dest string) error {
	stat, err := l.realpath(source)
	if err != nil {
		return failed(open, source, err)
	}
	l.part(part, path.Join(op.Dest, path.Base(dest)))
	l.makeFile(dest, 0o444)
	l.openSource(stat.Path, l.src)
	if err := l.attach(Flags{NoSuid}, stat.Path, dest, false); err != nil {
		return err
	}
	l.mounted(dest, node{origin: host, source: stat.Path})
	return nil
}

// compatDir makes a directory, or accepts one that exists.
func (l *lowering) compatDir(op Op) error {
	s, err := l.reach(op)
	switch {
	case err != nil:
		return err
	case s.exists() && !s.isDir():
		return failed(partNotDir, op.Dest, unix.ENOTDIR)
	case !s.exists():
		l.part(partMkdir, op.Dest)
		l.makeDir(s.path, op.Mode)
	}
	l.resolved.Dest = s.path
	return nil
}

// compatFile writes a file. It truncates one that exists.
func (l *lowering) compatFile(op Op) error {
	s, err := l.reach(op)
	switch {
	case err != nil:
		return err
	case s.isLink():
		return failed(partFile, op.Dest, unix.ELOOP)
	case s.isDir():
		return failed(partFile, op.Dest, unix.EISDIR)
	}
	l.part(partFile, op.Dest)
	file := l.p.Slot()
	l.within(s.path, func(dir sys.Arg, name string) {
		l.p.Add(unix.SYS_OPENAT, dir, sys.Str(name),
			sys.Words(unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, "O_WRONLY|O_CREAT|O_TRUNC|O_NOFOLLOW|O_CLOEXEC"), octalMode(op.Mode)).Keep(file)
	})
	l.fill(file, op)
	l.record(s.path, node{origin: private})
	l.resolved.Dest, l.resolved.File = s.path, true
	return nil
}

// fill writes op's content into the file that slot file has open, and closes it.
func (l *lowering) fill(file sys.Slot, op Op) {
	l.part(partWrite, op.Dest)
	if op.FD != nil {
		l.p.Copy(*op.FD, file)
	}
	for part := range slices.Chunk(op.Data, 1<<30) { // write(2) takes no more than 0x7ffff000 bytes
		l.p.Add(unix.SYS_WRITE, sys.Of(file), sys.Bytes(part), sys.Int(len(part))).Min(len(part))
	}
	l.p.Add(unix.SYS_CLOSE, sys.Of(file))
}

// compatData binds a file that has no other name: it is made outside of the new root, and unlinked once it is mounted.
func (l *lowering) compatData(op Op) error {
	dest, err := l.point(op, false)
	if err != nil {
		return err
	}
	name, file := fmt.Sprintf("bindfile%06d", l.index), l.p.Slot()
	l.part(partFile, op.Dest)
	l.p.Add(unix.SYS_OPENAT, sys.Of(l.base), sys.Str(name),
		sys.Words(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, "O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC"), octalMode(op.Mode)).Keep(file)
	l.fill(file, op)
	l.part(partBind, op.Dest)
	l.p.Add(unix.SYS_OPENAT, sys.Of(l.base), sys.Str(name), sys.Words(unix.O_PATH|unix.O_CLOEXEC, "O_PATH|O_CLOEXEC")).Keep(l.src)
	if err := l.attach(op.Flags, "", dest, false); err != nil {
		return err
	}
	l.p.Add(unix.SYS_UNLINKAT, sys.Of(l.base), sys.Str(name), sys.Int(0))
	l.mounted(dest, node{origin: private})
	l.resolved.Dest, l.resolved.File = dest, true
	return nil
}

// compatSymlink makes a symlink. One with the same target may exist already.
func (l *lowering) compatSymlink(op Op) error {
	s, err := l.reach(op)
	switch {
	case err != nil:
		return err
	case s.isLink() && s.target == op.Source:
	case s.isLink():
		return failed(partOtherLink, s.target, unix.EEXIST)
	case s.exists():
		return failed(partNotLink, op.Dest, unix.EEXIST)
	default:
		l.part(partSymlink, op.Dest)
		l.makeLink(op.Source, s.path)
	}
	l.resolved.Dest, l.resolved.Link = s.path, true
	return nil
}

func (l *lowering) makeLink(target, dest string) {
	l.mountPending(dest)
	l.within(dest, func(dir sys.Arg, name string) {
		l.p.Add(unix.SYS_SYMLINKAT, sys.Str(target), dir, sys.Str(name))
	})
	l.record(dest, node{origin: link, target: target})
}

// compatRemount adds op.Flags to the mount at an existing destination.
func (l *lowering) compatRemount(op Op) error {
	s, err := l.reach(op)
	switch {
	case err != nil:
		return err
	case !s.exists():
		return failed(partFile, op.Dest, unix.ENOENT) // no file is made here, but this part has bubblewrap's message
	case s.isLink():
		return failed(partOnLink, op.Dest, unix.ELOOP)
	}
	l.part(partRemount, s.path)
	l.openDest(s.path, l.dst)
	l.setFlags(l.dst, op.Flags, 0)
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
	return nil
}

// compatChmod changes the mode of what is at the destination. It names the file by its descriptor, so the path is not resolved twice.
func (l *lowering) compatChmod(op Op) error {
	s, err := l.follow(op.Dest, nil)
	if err == nil && !s.exists() {
		err = unix.ENOENT
	}
	if err != nil {
		return failed(partOpen, op.Dest, err)
	}
	l.part(partChmod, op.Dest)
	opened := l.dst
	if s.isLink() { // the kernel decides with which error it refuses a symlink
		l.within(s.path, func(dir sys.Arg, name string) {
			l.p.Add(unix.SYS_OPENAT, dir, sys.Str(name), sys.Words(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, "O_PATH|O_NOFOLLOW|O_CLOEXEC")).Keep(l.src)
		})
		opened = l.src
	} else {
		l.openDest(s.path, opened)
	}
	l.numbered(opened, l.picked(&l.fdDest))
	l.p.Add(unix.SYS_FCHMODAT, sys.AtCWD(), sys.Str(l.procFD(l.picked(&l.fdDest))), octalMode(op.Mode))
	l.p.Add(unix.SYS_CLOSE, sys.Int(l.picked(&l.fdDest)))
	return nil
}

// numbered moves the descriptor in slot to number n, which a path in /proc/self/fd can name.
func (l *lowering) numbered(slot sys.Slot, n int) {
	l.p.Add(unix.SYS_DUP3, sys.Of(slot), sys.Int(n), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
	l.p.Add(unix.SYS_CLOSE, sys.Of(slot))
}

// compatOverlay mounts an overlay whose layers are named by descriptor numbers: no path needs escaping, and none is resolved twice.
func (l *lowering) compatOverlay(op Op) error {
	dirs, hosts, err := l.overlayDirs(op)
	if err != nil {
		return err
	}
	dest, err := l.point(op, true)
	if err != nil {
		return err
	}
	l.part(partOverlay, op.Dest)
	var names []string
	var numbers []int
	l.ownProc()
	for _, dir := range dirs {
		number := l.number()
		l.openSource(dir, l.src)
		l.numbered(l.src, number)
		names, numbers = append(names, l.procFD(number)), append(numbers, number)
	}
	options := "lowerdir=" + strings.Join(names[:len(op.Layers)], ":")
	switch {
	case op.Upper != "":
		options = "upperdir=" + names[len(op.Layers)] + ",workdir=" + names[len(op.Layers)+1] + "," + options
	case op.Scratch:
		options = l.scratch() + "," + options
	}
	l.mountOn(dest, "overlay", options+",userxattr", op.Flags)
	l.mounted(dest, node{origin: layered, layers: hosts, dir: true})
	for _, n := range numbers {
		l.p.Add(unix.SYS_CLOSE, sys.Int(n))
	}
	l.resolved.Dest = dest
	return nil
}

// ownProc binds the host's procfs at /proc of the current root, so that paths in it need no prefix. The options of an overlay stay readable
// in its mount table, and they should not name the place of the host's root.
func (l *lowering) ownProc() {
	if l.prefix == "" {
		return
	}
	l.p.Add(unix.SYS_MKDIRAT, sys.Of(l.base), sys.Str("proc"), octalMode(0o755))
	l.p.Add(unix.SYS_MOUNT, sys.Str(l.prefix+"/proc"), sys.Str("/proc"), sys.Null(), sys.Words(unix.MS_BIND|unix.MS_REC, "MS_BIND|MS_REC"), sys.Null())
	l.prefix = ""
}

// scratch makes the upper and work directories of an overlay outside of the new root, and returns the options that name them.
func (l *lowering) scratch() string {
	var options []string
	for _, kind := range []string{"upper", "work"} {
		name := fmt.Sprintf("tmp-overlay-%s-%d", kind, l.scratches)
		l.p.Add(unix.SYS_MKDIRAT, sys.Of(l.base), sys.Str(name), octalMode(0o755))
		options = append(options, kind+"dir=/"+name)
	}
	l.scratches++
	return strings.Join(options, ",")
}

// overlayDirs resolves the directories of an overlay: the layers from the top, then upper and work. hosts are those in which a name of the
// overlay can be looked up, topmost first.
func (l *lowering) overlayDirs(op Op) (dirs, hosts []string, err error) {
	paths := slices.Clone(op.Layers)
	slices.Reverse(paths) // the kernel expects the topmost first
	if op.Upper != "" {
		paths = append(paths, op.Upper, op.Work)
	}
	for _, p := range paths {
		stat, err := l.realpath(p)
		if err != nil {
			return nil, nil, failed(partSource, p, err)
		}
		dirs = append(dirs, stat.Path)
	}
	hosts = slices.Clone(dirs[:len(op.Layers)])
	if op.Upper != "" {
		hosts = append([]string{dirs[len(op.Layers)]}, hosts...)
	}
	return dirs, hosts, nil
}
