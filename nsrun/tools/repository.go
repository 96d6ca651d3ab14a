package tools

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// repository is where git finds what belongs to a directory. The zero value is none.
type repository struct {
	top    string // the directory that has an entry .git: that of the working tree
	entry  string // the git directory that the entry is, or names: of a worktree, its own part of gitDir
	gitDir string // the git directory with the objects, branches and hooks
}

// acrossFS has git look for .git above the workspace where that is a file system of its own (git(1)).
const acrossFS = "GIT_DISCOVERY_ACROSS_FILESYSTEM"

// repositories adds what of a git repository lies outside of a directory that was asked for: the rest of its working tree, read-only, and its git directory.
func (a *adder) repositories() {
	if a.Bare() {
		return // the command sees the host
	}
	for _, e := range a.asked.FS {
		if e.Kind != policy.Bind || e.System || e.Tool != "" || e.Source != e.Dest {
			continue
		}
		if info, err := os.Stat(e.Source); err == nil && info.IsDir() {
			a.repository(e)
		}
	}
}

// repository adds the repository of one grant.
func (a *adder) repository(grant policy.FS) {
	real, err := a.host.Real(grant.Source)
	if err != nil {
		return
	}
	fix := "look at it; if it is right, grant its directories with --ro and --rw"
	r, err := a.host.repository(real)
	switch {
	case err != nil && a.granted(r.entry) && a.granted(r.top) && !policy.Inside(r.entry, real): // as the note below says
		if r.top != real {
			a.across()
		}
		a.alternates(r)
		return
	case err != nil && r.entry != "":
		fix = "look at it; if it is right, grant it with --rw " + r.entry
		if r.top != real {
			fix += " --ro " + r.top
		}
		fallthrough
	case err != nil:
		a.note("the repository of "+grant.Source+" is not shown: "+err.Error(), fix)
		return
	case r.top == "" || policy.Inside(real, r.gitDir): // none, or only a part of a git directory was asked for
		return
	case r.top == real && r.gitDir == r.top+"/.git": // all of it is in the grant
		a.trust(r)
		a.alternates(r)
		return
	}
	if why := a.refused(grant.Source, real, r); why != "" {
		a.note("the repository of "+grant.Source+" is not shown: "+why, fix)
		return
	}
	if r.top != real && a.found(r.top, false) {
		a.across()
	}
	a.found(r.gitDir, grant.Write && !a.strict)
	a.trust(r)
	a.alternates(r)
}

// across has git look above the workspace, unless the policy decides that.
func (a *adder) across() {
	across := policy.Var{Name: acrossFS, Value: "1"}
	if !slices.Contains(a.Env.Pass, acrossFS) && !slices.Contains(a.Env.Set, across) {
		a.Env.Set = slices.Concat([]policy.Var{across}, a.Env.Set) // the policy's own comes later, and wins
	}
}

// granted reports whether what was asked for shows a directory of the host at its own path.
func (a *adder) granted(dir string) bool {
	if dir == "" {
		return false
	}
	at := a.asked.At(dir)
	return at != nil && at.Kind == policy.Bind && at.Source == at.Dest && !at.System
}

// found adds a directory of a repository, and reports whether it was added: it is not if what was asked for decides what is seen there.
func (a *adder) found(dir string, write bool) bool {
	if at := a.asked.At(dir); at != nil {
		otherHome := at.Dest == a.Home && at.Source != at.Dest
		if !at.System && !otherHome || at.System && at.Kind == policy.Bind && !write {
			return false
		}
	}
	for i := len(a.asked.FS); i < len(a.FS); i++ { // of another grant, in the same repository
		if e := &a.FS[i]; e.Found && e.Dest == dir && e.Tool == a.tool.Name {
			e.Write = e.Write || write
			return true
		}
	}
	a.add(policy.FS{Kind: policy.Bind, Source: dir, Dest: dir, Write: write, Directory: true, NoFollow: true, Optional: true, Found: true})
	return true
}

// trust notes the top of a repository that belongs to the user who called sudo: git, as root, refuses it otherwise. It trusts no other user's.
func (a *adder) trust(r repository) {
	caller := a.host.sudoUID()
	if caller == 0 || slices.Contains(a.safe, r.top) || a.host.foreign(r.top) != "" || a.host.foreign(r.gitDir) != "" {
		return
	}
	if info, err := os.Lstat(r.top); err == nil && ownerOf(info) == caller {
		a.safe = append(a.safe, r.top)
	}
}

// refused says why nothing of a repository is added for a grant, whose path without symlinks is real.
func (a *adder) refused(grant, real string, r repository) string {
	switch {
	case real != grant:
		return "it leads through a symlink to " + real + "; name that"
	case a.host.Home == "":
		return "HOME names no directory, so nobody knows whether " + r.gitDir + " lies in one with keys"
	}
	for _, dir := range []string{r.top, r.entry, r.gitDir} {
		if why := a.host.foreign(dir); why != "" {
			return why
		}
	}
	added := []string{r.gitDir}
	if r.top != grant {
		added = append(added, r.top)
	}
	for _, dir := range added {
		if err := (policy.FS{Kind: policy.Bind, Source: dir, Dest: dir}).Check(); err != nil {
			return err.Error()
		}
		if why := a.unfit(dir, ""); why != "" {
			return why
		}
		if why := personal(dir); why != "" {
			return why
		}
	}
	return ""
}

// personal says why a directory is more than a repository: it holds users' home directories, or looks like one.
func personal(dir string) string {
	for _, place := range []string{"/home", "/run"} {
		if policy.Inside(place, dir) {
			return dir + " is no place of a repository"
		}
	}
	if policy.Private(dir) {
		return dir + " is a place that each sandbox has for itself"
	}
	for _, name := range []string{".ssh", ".gnupg", ".bashrc", ".profile", ".zshrc"} {
		if _, err := os.Lstat(dir + "/" + name); !errors.Is(err, os.ErrNotExist) {
			return dir + " looks like a home directory: it has " + name
		}
	}
	return ""
}

// foreign says why the entries of a directory could be anybody's.
func (h Host) foreign(dir string) string {
	info, err := os.Lstat(dir)
	if err != nil {
		return err.Error()
	}
	owner, caller := ownerOf(info), h.sudoUID()
	switch {
	case owner != os.Geteuid() && (caller == 0 || owner != caller):
		return fmt.Sprintf("%s belongs to another user (uid %d)", dir, owner)
	case info.Mode().Perm()&0o002 != 0:
		return "everybody can write to " + dir
	}
	return ""
}

// ownerOf returns the uid of a file's owner, or -1.
func ownerOf(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// sudoUID returns the uid of the user who has become root by sudo, or 0.
func (h Host) sudoUID() int {
	value, _ := h.Lookup("SUDO_UID")
	uid, err := strconv.ParseUint(value, 10, 31)
	if err != nil || os.Geteuid() != 0 {
		return 0
	}
	return int(uid)
}

// repository finds the repository that git takes a directory to be in, by the first entry .git in it or above. The path must be free of symlinks. It returns
// an error if there is such an entry and it is not to be trusted.
func (h Host) repository(dir string) (repository, error) {
	for {
		entry := path.Join(dir, ".git")
		switch info, err := os.Lstat(entry); {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return repository{}, err
		case info.IsDir() && !isGitDir(entry):
			return repository{}, fmt.Errorf("%s has no HEAD, objects and refs", entry)
		case info.IsDir():
			return repository{dir, entry, entry}, nil
		case info.Mode().IsRegular():
			return h.linked(dir)
		default:
			return repository{}, fmt.Errorf("%s is neither a directory nor a file", entry)
		}
		if dir == "/" {
			return repository{}, nil
		}
		dir = path.Dir(dir)
	}
}

// maxLink is how large a .git file, and a file of a worktree that names another, may be.
const maxLink = 4 << 10

// linked is the repository of a directory whose .git is a file (gitrepository-layout(5)). A command of an earlier run could have put it there to be shown what it
// names. So that has to name the file back, which nobody can make it do who cannot write to it already.
func (h Host) linked(top string) (repository, error) {
	entry, err := h.named(top)
	if err != nil {
		return repository{top: top, entry: entry}, err
	}
	r := repository{top, entry, entry}
	if path.Base(path.Dir(entry)) == "worktrees" && !h.ofModules(top, entry) {
		r.gitDir = path.Dir(path.Dir(entry))
		err = h.worktree(r)
	} else {
		err = h.submodule(r)
	}
	if err != nil {
		err = fmt.Errorf("%s/.git names %s, and %w", top, entry, err)
	}
	return r, err
}

// named is the directory that the .git file of top names. It is not empty if there is an error about that directory.
func (h Host) named(top string) (entry string, err error) {
	file := top + "/.git"
	data, err := readBounded(file, maxLink)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(string(data), "gitdir: ")
	name = strings.TrimRight(name, "\r\n")
	if !ok || policy.CheckText(name) != nil {
		return "", fmt.Errorf("%s is none of git's files", file)
	}
	name = under(top, name)
	entry = filepath.Clean(name)
	if real, err := h.Real(name); err != nil || real != entry {
		return entry, fmt.Errorf("%s names %s, which is not there, or leads through a symlink", file, entry)
	}
	return entry, nil
}

// worktree returns an error unless the git directory has r.top as a worktree.
func (h Host) worktree(r repository) error {
	back, err := readBounded(r.entry+"/gitdir", maxLink)
	if err != nil {
		return err
	}
	if !h.leads(r.entry, strings.TrimRight(string(back), "\r\n"), r.top+"/.git") {
		return fmt.Errorf("its file gitdir does not name that back")
	}
	common, err := readBounded(r.entry+"/commondir", maxLink)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(common)) != "../.." {
		return fmt.Errorf("its file commondir names another directory than the one two above")
	}
	if !isGitDir(r.gitDir) {
		return fmt.Errorf("%s has no HEAD, objects and refs", r.gitDir)
	}
	if !strings.HasSuffix(r.gitDir, ".git") { // a command can make a git directory of any that it could write to once
		return fmt.Errorf("%s is not called .git", r.gitDir)
	}
	return notLater(r.top+"/.git", r.entry+"/gitdir", mostLater)
}

// submodule returns an error unless r.entry is the git directory of a submodule in r.top, of a repository above.
func (h Host) submodule(r repository) error {
	if !h.ofModules(r.top, r.entry) {
		return fmt.Errorf("that is neither a worktree's nor in the .git/modules of a directory above")
	}
	if !isGitDir(r.entry) {
		return fmt.Errorf("that has no HEAD, objects and refs")
	}
	data, err := readBounded(r.entry+"/config", hostrun.MaxGitConfig)
	if err != nil {
		return err
	}
	all, err := hostrun.ParseGitConfig(data)
	if err != nil {
		return fmt.Errorf("its configuration cannot be read: %w", err)
	}
	back := ""
	for _, s := range all {
		if s.Key == "core.worktree" {
			back = s.Value
		}
	}
	if !h.leads(r.entry, back, r.top) {
		return fmt.Errorf("its core.worktree does not name %s back", r.top)
	}
	return notLater(r.top+"/.git", r.entry+"/config", mostLater)
}

// mostLater is how much later than the file that names it back a .git file may have been changed: git writes both at once, a copy of the tree does not.
const mostLater = 10 * time.Minute

// notLater returns an error if a .git file was changed long after the file that names it back. A repository can still have a worktree that its user has
// removed: a command that is given another directory of that name could write a .git there.
func notLater(file, back string, most time.Duration) error {
	ours, err := os.Lstat(file)
	if err != nil {
		return err
	}
	theirs, err := os.Lstat(back)
	if err != nil {
		return err
	}
	if changed(ours).Sub(changed(theirs)) > most {
		return fmt.Errorf("%s was changed long after that was; if it is right, run touch %s", file, back)
	}
	return nil
}

// ofModules reports whether a git directory lies in the .git/modules of a directory above top, or where a worktree above has those of its submodules:
// .git/worktrees/ID/modules.
func (h Host) ofModules(top, gitDir string) bool {
	for top != "/" {
		top = path.Dir(top)
		entry := path.Join(top, ".git")
		switch info, err := os.Lstat(entry); {
		case err != nil:
			continue
		case info.Mode().IsRegular():
			if entry, err = h.named(top); err != nil || path.Base(path.Dir(entry)) != "worktrees" {
				continue
			}
			if h.worktree(repository{top, entry, path.Dir(path.Dir(entry))}) != nil {
				continue
			}
		case !info.IsDir():
			continue
		}
		if modules := entry + "/modules"; gitDir != modules && policy.Inside(gitDir, modules) {
			return true
		}
	}
	return false
}

// leads reports whether a path that a file in dir holds is that of to, which must be free of symlinks, and so must the path: git writes it so, and a command
// could have made a symlink of what it names.
func (h Host) leads(dir, name, to string) bool {
	if name == "" || path.Clean(under(dir, name)) != to {
		return false
	}
	real, err := h.Real(under(dir, name))
	return err == nil && real == to
}

// under is a path that counts from dir unless it is absolute. It is not cleaned: after a symlink, ".." is not what is before it.
func under(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return dir + "/" + name
}

// isGitDir reports whether git takes a directory for a git directory: see is_git_directory in git's setup.c.
func isGitDir(dir string) bool {
	return !slices.ContainsFunc([]string{"HEAD", "objects", "refs"}, func(name string) bool {
		_, err := os.Lstat(dir + "/" + name)
		return err != nil
	})
}

// readBounded reads a regular file that is no symlink and has at most so many bytes.
func readBounded(name string, most int) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, err
}
