package homes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// Home is the kept home directory of a workspace. It need not exist.
type Home struct {
	Workspace string // by its real path
	Name      string // of its directory of state
	state     string // where those lie
}

const (
	homeDir       = "home"      // what a sandbox sees
	workspaceFile = "workspace" // names the workspace
	measuredFile  = "measured"  // its time is when Above last looked
)

// For returns the home of a workspace, which must exist.
func For(workspace string) (Home, error) {
	dir, err := state()
	if err != nil {
		return Home{}, err
	}
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return Home{}, fmt.Errorf("the workspace of a kept home directory: %w", err)
	}
	sum := sha256.Sum256([]byte(real))
	return Home{Workspace: real, Name: plain(filepath.Base(real)) + "-" + hex.EncodeToString(sum[:8]), state: dir}, nil
}

// state is where homes are kept.
func state() (string, error) { return stateDir("home") }

// stateDir is a directory of nsrun's own state: the XDG base directory specification has the rules. A relative XDG_STATE_HOME does not count. Without HOME,
// as in services, or where that is not there, the account file says what it is.
func stateDir(name string) (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home := os.Getenv("HOME")
		info, err := os.Stat(home)
		switch {
		case err == nil && info.IsDir() || errors.Is(err, os.ErrPermission): // the latter is for the caller to find out about
		case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return "", fmt.Errorf("HOME: %w%s", err, elsewhere)
		default: // a home directory is not made
			account, err := user.LookupId(strconv.Itoa(os.Getuid()))
			if err == nil {
				home = account.HomeDir
			} else if !errors.As(err, new(user.UnknownUserIdError)) && !errors.Is(err, os.ErrNotExist) {
				return "", fmt.Errorf("the home directory of user %d: %w%s", os.Getuid(), err, elsewhere)
			}
		}
		if !filepath.IsAbs(home) {
			return "", notOurs("there is no place for a home directory: set XDG_STATE_HOME to a directory of yours")
		}
		dir = filepath.Join(home, ".local/state")
	}
	dir = filepath.Join(dir, "nsrun", name)
	if err := policy.CheckPath(dir); err != nil {
		return "", fmt.Errorf("XDG_STATE_HOME: %w", err)
	}
	return dir, nil
}

// plain is a workspace's own name, as far as every program can take it.
func plain(name string) string {
	const most = 40
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), most)]
}

// Dir is the directory that a sandbox sees.
func (h Home) Dir() string { return filepath.Join(h.state, h.Name, homeDir) }

// Use makes the home if there is none, and returns a function that ends its use: until then [Home.Remove] fails. places are what is mounted below it,
// which gets its mount points there.
func (h Home) Use(places []Place) (release func(), err error) {
	root, err := h.open()
	if err != nil {
		return nil, fmt.Errorf("the kept home directory %s: %w%s", filepath.Dir(h.Dir()), err, elsewhere)
	}
	release = func() { root.Close() }
	if err := h.prepare(root, places); err != nil {
		release()
		hint := ""
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) {
			hint = elsewhere
		}
		return nil, fmt.Errorf("the kept home directory %s: %w%s", h.Dir(), err, hint)
	}
	return release, nil
}

const elsewhere = "; XDG_STATE_HOME says where it lies"

// open opens the directory of state, made anew if need be, and takes a shared lock on it (flock(2)), which [Home.Remove] takes alone.
func (h Home) open() (*os.File, error) {
	const tries = 3 // it may be removed between the two steps
	if err := oursAbove(h.state); err != nil {
		return nil, err
	}
	for range tries {
		if err := os.MkdirAll(filepath.Join(h.state, h.Name), 0o700); err != nil {
			return nil, err
		}
		dir, err := os.OpenFile(filepath.Join(h.state, h.Name), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		if err := ours(dir); err != nil {
			dir.Close()
			return nil, err
		}
		if err := unix.Flock(int(dir.Fd()), unix.LOCK_SH); err != nil {
			dir.Close()
			return nil, os.NewSyscallError("flock", err)
		}
		var open, there unix.Stat_t
		if unix.Fstat(int(dir.Fd()), &open) == nil && unix.Lstat(dir.Name(), &there) == nil && open.Ino == there.Ino {
			return dir, nil
		}
		dir.Close()
	}
	return nil, errors.New("it is removed again and again")
}

// notOurs is the error for a directory that somebody else can change, and for a user that has none.
type notOurs string

func (n notOurs) Error() string { return string(n) }

// oursAbove returns an error if the directory that exists on the way to a path is another user's: as under sudo, where HOME is, which can be closed to
// this user.
func oursAbove(path string) error {
	var closed error
	for {
		dir, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			if errors.Is(err, os.ErrPermission) {
				closed = cmp.Or(closed, err)
			} else if !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if path == "/" {
				return err
			}
			path = filepath.Dir(path)
			continue
		}
		defer dir.Close()
		if err := ours(dir); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return closed
	}
}

// ours returns an error for a directory that somebody else can change: under sudo, HOME can be another user's.
func ours(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if int(st.Uid) != os.Geteuid() {
		return notOurs(fmt.Sprintf("it belongs to user %d, not to %d, as which nsrun runs", st.Uid, os.Geteuid()))
	}
	if st.Mode&0o022 != 0 {
		return notOurs(fmt.Sprintf("its mode is %04o, and others may change it", st.Mode&0o7777))
	}
	return nil
}

// prepare fills the directory of state.
func (h Home) prepare(dir *os.File, places []Place) error {
	root, err := os.OpenRoot(dir.Name())
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(homeDir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := h.note(root); err != nil {
		return err
	}
	home, err := root.OpenRoot(homeDir)
	if err != nil {
		return err
	}
	defer home.Close()
	for _, p := range places {
		if err := p.make(home); err != nil {
			return err
		}
	}
	return nil
}

// note writes down the workspace and the time of this use. A name that is there stays: on a full disk it could be emptied and not written.
func (h Home) note(root *os.Root) error {
	text := h.Workspace + "\n"
	if have, err := root.ReadFile(workspaceFile); err == nil && string(have) == text {
		now := time.Now()
		return root.Chtimes(workspaceFile, now, now)
	}
	return root.WriteFile(workspaceFile, []byte(text), 0o600)
}

// Place is where something is mounted in a home.
type Place struct {
	Path string // relative
	File bool   // it is no directory
}

// make makes the place. Whatever is there already has to be of the right type, and no symlink: a sandbox could have planted that.
func (p Place) make(home *os.Root) error {
	names := strings.Split(p.Path, "/")
	for i := range names {
		at := filepath.Join(names[:i+1]...)
		file := p.File && i == len(names)-1
		info, err := home.Lstat(at)
		switch {
		case errors.Is(err, os.ErrNotExist) && file:
			var f *os.File
			if f, err = home.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
				err = f.Close()
			}
		case errors.Is(err, os.ErrNotExist):
			err = home.Mkdir(at, 0o700)
		case err == nil && info.IsDir() == file, err == nil && !info.IsDir() && !info.Mode().IsRegular():
			err = fmt.Errorf("%s is a %s, where something is to be mounted; an earlier run has left it: remove it, or the home directory by nsrun home rm", at, kindOf(info))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func kindOf(info os.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return "directory"
	case mode&os.ModeSymlink != 0:
		return "symlink"
	case mode.IsRegular():
		return "file"
	}
	return "special file"
}

// Kept describes a home that exists.
type Kept struct {
	Name      string    `json:"name"`
	Workspace string    `json:"workspace"`
	Dir       string    `json:"dir"`
	Bytes     int64     `json:"bytes"` // on disk
	Used      time.Time `json:"used"`  // when a run last began
}

// List lists the homes of this user. It walks all of them.
func List() ([]Kept, error) {
	dir, err := state()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []Kept
	for _, e := range entries {
		if k, ok := look(dir, e.Name()); ok {
			all = append(all, k)
		}
	}
	return all, err
}

// look describes the home of a name; ok is false if there is none.
func look(state, name string) (k Kept, ok bool) {
	at := filepath.Join(state, name)
	info, err := os.Lstat(filepath.Join(at, workspaceFile))
	if err != nil || !info.Mode().IsRegular() {
		return k, false
	}
	text, err := os.ReadFile(filepath.Join(at, workspaceFile))
	if err != nil {
		return k, false
	}
	k = Kept{Name: name, Workspace: strings.TrimSuffix(string(text), "\n"), Dir: filepath.Join(at, homeDir), Used: info.ModTime()}
	k.Bytes = size(k.Dir, func(int64) bool { return false })
	return k, true
}

// size adds up what the files below a directory take on disk, until it is enough. What cannot be read does not count.
func size(dir string, enough func(bytes int64) bool) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		var st unix.Stat_t
		if info, err := e.Info(); err == nil && fill(&st, info) {
			bytes += st.Blocks * 512
		}
		if enough(bytes) {
			return filepath.SkipAll
		}
		return nil
	})
	return bytes
}

// Above reports whether a home takes more than so many bytes on disk. It looks at most once a day, and then for two seconds at most: else it says no.
func (h Home) Above(most int64) bool {
	at := filepath.Join(h.state, h.Name, measuredFile)
	if info, err := os.Lstat(at); err == nil && time.Since(info.ModTime()) < 24*time.Hour {
		return false
	}
	file, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false // without the mark every run would look
	}
	now, deadline := time.Now(), time.Now().Add(2*time.Second)
	if err := errors.Join(file.Close(), os.Chtimes(at, now, now)); err != nil {
		return false
	}
	return size(h.Dir(), func(bytes int64) bool { return bytes > most || time.Now().After(deadline) }) > most
}

// Remove removes the home of a workspace, or of a name that [List] gives. It fails while a run uses it, and then names the processes.
func Remove(which string) error {
	homes, err := List()
	if err != nil {
		return err
	}
	for _, k := range homes {
		if k.Name == which || k.Workspace == which {
			return remove(filepath.Dir(k.Dir))
		}
	}
	return fmt.Errorf("no home directory is kept for %q; nsrun home list has those that are", which)
}

func remove(at string) error {
	dir, err := os.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := ours(dir); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s is in use by %s; end that first", at, holders(dir))
	}
	parent, err := os.OpenFile(filepath.Dir(at), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	return removeTree(int(parent.Fd()), filepath.Base(at))
}
