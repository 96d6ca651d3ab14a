package homes

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// privateState is where private directories lie, below nsrun's own directory of state.
const privateState = "run"

// Spare returns the path, free of symlinks, that a private directory of a name has: see [MakePrivate]. It makes nothing. Users without a home directory
// of their own, such as those of services, have it in the directory for temporary files, unless XDG_STATE_HOME names another one.
func Spare(name string) (string, error) {
	dir, err := stateDir(privateState)
	if !filepath.IsAbs(os.Getenv("XDG_STATE_HOME")) {
		if err == nil {
			err = oursAbove(dir)
		}
		if err == nil {
			err = writable(dir)
		}
		if errors.As(err, new(notOurs)) || errors.Is(err, unix.EROFS) { // and no other error: a look that fails once must not change where the command's home is
			return inTemp(name)
		}
	}
	if err != nil {
		return "", err
	}
	rest := name
	for { // of what is not there nothing is a symlink
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest), writable(real)
		}
		if !errors.Is(err, os.ErrNotExist) || dir == "/" {
			return "", fmt.Errorf("%w%s", err, elsewhere)
		}
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
}

// inTemp returns the path in the directory for temporary files, where others can have made a symlink of our directory's name.
func inTemp(name string) (string, error) {
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return "", fmt.Errorf("%w%s", err, elsewhere)
	}
	dir := filepath.Join(temp, fmt.Sprintf("nsrun-%d", os.Geteuid()))
	switch info, err := os.Lstat(dir); {
	case err == nil && !info.IsDir():
		return "", fmt.Errorf("%s is a %s, and no directory%s", dir, kindOf(info), elsewhere)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%w%s", err, elsewhere)
	}
	return filepath.Join(dir, name), writable(dir)
}

// writable returns an error if the directory that exists on the way to a path is on a file system that cannot be written, as in containers with a
// read-only root.
func writable(dir string) error {
	for {
		err := unix.Access(dir, unix.W_OK)
		if !errors.Is(err, os.ErrNotExist) || dir == "/" {
			if errors.Is(err, unix.EROFS) {
				return &os.PathError{Op: "make a directory below", Path: dir, Err: err}
			}
			return nil // other errors are for whatever makes it
		}
		dir = filepath.Dir(dir)
	}
}

// SpareName returns a name that nobody else has chosen, for [Spare].
func SpareName() string {
	var name [8]byte
	_, _ = unix.Getrandom(name[:], 0) // for so few bytes it does not fail (getrandom(2)); crypto/rand would be more to start
	return hex.EncodeToString(name[:])
}

// spareName reports whether [SpareName] could have returned a name. Nothing else is ever removed.
func spareName(name string) bool {
	raw, err := hex.DecodeString(name)
	return err == nil && len(raw) == 8
}

// Private is a directory for one run. A lock on it (flock(2)) says that the run is alive.
type Private struct {
	state, dir *os.File // where it lies, and itself
	name       string
	// Left is why something that a killed run has left could not be removed.
	Left error
}

// Link is a symlink at a path below a [Private].
type Link struct{ Path, Target string }

// File is a file at a path below a [Private].
type File struct {
	Path string
	Data []byte
}

// MakePrivate makes a directory at a path that [Spare] has returned, with mode 0700, directories of these names in it, the links whose targets are
// there, and files. It removes what killed runs have left beside it.
func MakePrivate(at string, names []string, links []Link, files []File) (*Private, error) {
	p, err := makePrivate(at, names, links, files)
	if err != nil {
		return nil, fmt.Errorf("the directory of this run alone, %s: %w%s", at, err, elsewhere)
	}
	p.Left = p.sweep()
	return p, nil
}

func makePrivate(at string, names []string, links []Link, files []File) (*Private, error) {
	state, err := openState(filepath.Dir(at))
	if err != nil {
		return nil, err
	}
	p := &Private{state: state, name: filepath.Base(at)}
	if err := p.fill(names, links, files); err != nil {
		if p.dir != nil {
			_ = p.Remove()
		} else {
			state.Close()
		}
		return nil, err
	}
	return p, nil
}

// openState opens a directory of nsrun's own, which it makes if need be.
func openState(at string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(at, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := oursAbove(at); err != nil && !everybodys(filepath.Dir(at)) {
			return nil, err
		}
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, err
		}
		fd, err = unix.Open(at, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: at, Err: err}
	}
	state := os.NewFile(uintptr(fd), at) // os.OpenFile would start Go's poller
	if err := ours(state); err != nil {
		state.Close()
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return state, nil
}

// everybodys reports whether all users make files in a directory, and remove only their own, as in /tmp.
func everybodys(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode()&os.ModeSticky != 0
}

// fill makes the directory and what is in it. The lock on the directory above keeps others from removing it before its own lock is taken.
func (p *Private) fill(names []string, links []Link, files []File) error {
	state := int(p.state.Fd())
	if err := unix.Flock(state, unix.LOCK_SH); err != nil {
		return os.NewSyscallError("flock", err)
	}
	defer func() { _ = unix.Flock(state, unix.LOCK_UN) }()
	if err := unix.Mkdirat(state, p.name, 0o700); err != nil {
		return os.NewSyscallError("mkdirat", err)
	}
	dir, err := openDir(state, p.name)
	if err != nil {
		return errors.Join(err, os.NewSyscallError("unlinkat", unix.Unlinkat(state, p.name, unix.AT_REMOVEDIR)))
	}
	p.dir = dir
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_SH); err != nil {
		return os.NewSyscallError("flock", err)
	}
	for _, name := range names {
		if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
			return os.NewSyscallError("mkdirat", err)
		}
	}
	for _, f := range files {
		if err := p.parents(f.Path); err != nil {
			return err
		}
		if err := p.write(f); err != nil {
			return err
		}
	}
	return p.link(links)
}

// write makes a file, in a directory that nobody else writes to yet.
func (p *Private) write(f File) error {
	fd, err := unix.Openat(int(p.dir.Fd()), f.Path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	file := os.NewFile(uintptr(fd), f.Path)
	_, err = file.Write(f.Data)
	return errors.Join(err, file.Close())
}

// parents makes the directories above a path.
func (p *Private) parents(file string) error {
	for i, r := range file {
		if r != '/' {
			continue
		}
		if err := unix.Mkdirat(int(p.dir.Fd()), file[:i], 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return os.NewSyscallError("mkdirat", err)
		}
	}
	return nil
}

// link makes links whose targets are there, in a directory that nobody else writes to yet.
func (p *Private) link(links []Link) error {
	for _, l := range links {
		if _, err := os.Stat(l.Target); err != nil {
			continue // it is left out, or an error that the run has
		}
		if err := p.parents(l.Path); err != nil {
			return err
		}
		if err := unix.Symlinkat(l.Target, int(p.dir.Fd()), l.Path); err != nil {
			return os.NewSyscallError("symlinkat", err)
		}
	}
	return nil
}

// mostSwept is how many directories one run removes that others have left, so that it holds few descriptors.
const mostSwept = 64

// sweep removes the other directories beside it whose runs have ended without removing them, since nobody holds a lock on them. Runs that begin meanwhile
// wait until it has looked at all of them, and not for the removal.
func (p *Private) sweep() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.state.Fd()), &st); err == nil && st.Nlink == 3 {
		return nil // a name, "." and the ".." of one directory; file systems that do not count those say 1
	}
	names, err := p.state.Readdirnames(-1)
	if err != nil || len(names) == 1 {
		return err
	}
	state := int(p.state.Fd())
	if err := unix.Flock(state, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // another run begins: the next one removes them
	}
	var dead []*os.File
	for _, name := range names {
		if name == p.name || !spareName(name) || len(dead) == mostSwept {
			continue
		}
		dir, err := openDir(state, name)
		if err != nil {
			continue // it is no directory of nsrun's
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			dir.Close() // its run is alive
			continue
		}
		dead = append(dead, dir)
	}
	_ = unix.Flock(state, unix.LOCK_UN)
	var faults []error
	for _, dir := range dead {
		if err := removeTree(state, dir.Name()); err != nil && !errors.Is(err, unix.ENOENT) {
			faults = append(faults, fmt.Errorf("%s, which a killed run has left: %w", path.Join(p.state.Name(), dir.Name()), err))
		}
		dir.Close()
	}
	return errors.Join(faults...)
}

// Remove removes the directory with all that is in it.
func (p *Private) Remove() error {
	err := removeTree(int(p.state.Fd()), p.name)
	p.dir.Close()
	p.state.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", path.Join(p.state.Name(), p.name), err)
	}
	return nil
}
