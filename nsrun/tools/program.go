package tools

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// program shows the installation of a program on the caller's PATH, unless the sandbox shows it already. A program in a place that a sandbox can write to is
// none: a command could have put a link there that leads anywhere.
func (a *adder) program(place Place) {
	search, _ := a.host.Lookup("PATH")
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		at := path.Join(path.Clean(dir), place.Path)
		real, err := filepath.EvalSymlinks(at)
		if err != nil || !executable(real) {
			continue
		}
		if where, err := filepath.EvalSymlinks(dir); err != nil || a.writable(where) || a.writable(real) {
			continue
		}
		a.install(place, at, real)
		return
	}
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// writable reports whether the policy shows a place writable.
func (a *adder) writable(place string) bool {
	return slices.ContainsFunc(a.FS, func(e policy.FS) bool {
		if e.Kind != policy.Bind || !e.Write {
			return false
		}
		real, err := filepath.EvalSymlinks(e.Source)
		return policy.Inside(place, e.Source) || err == nil && policy.Inside(place, real)
	})
}

// shown reports whether the policy shows a place of the host at its own path.
func (a *adder) shown(place string) bool {
	at := a.At(place)
	return at != nil && at.Kind == policy.Bind && at.Source == at.Dest
}

// install shows a program that PATH finds at one place and that lies at another: its installation, and the link to it.
func (a *adder) install(place Place, at, real string) {
	root := real
	for range place.Up {
		root = path.Dir(root)
	}
	if why := a.tooWide(root); why != "" {
		if root != real {
			a.note(at+" is shown alone: the directory of its installation, "+root+", is "+why, "grant what it needs with --ro")
		}
		root = real
	}
	if !a.shown(root) {
		a.add(policy.FS{Kind: policy.Bind, Source: root, Dest: root, Optional: true})
	}
	if at != real && !a.shown(at) && !policy.Inside(at, root) {
		a.links(at, real)
	}
}

// links shows the symlinks on the way from one path to another as they are, such as ~/sdk/current/bin/go.
func (a *adder) links(at, real string) {
	for n := 0; n < 8 && at != real && !a.shown(at); n++ {
		link := firstLink(at)
		if link == "" {
			return
		}
		target, err := os.Readlink(link)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = path.Join(path.Dir(link), target)
		}
		if home := a.At(link); home != nil && home.Dest == a.Home && (a.KeepHome != "" || home.Kind == policy.Bind) {
			a.note(link+" is a link, which a home directory of the host's does not get", "put "+path.Dir(real)+" on PATH")
			return
		}
		a.add(policy.FS{Kind: policy.Symlink, Source: target, Dest: link})
		at = path.Join(target, strings.TrimPrefix(at, link))
	}
}

// firstLink is the first symlink on the way to a path, or empty.
func firstLink(file string) string {
	for i := 1; i <= len(file); i++ {
		if i < len(file) && file[i] != '/' {
			continue
		}
		info, err := os.Lstat(file[:i])
		if err != nil {
			return ""
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return file[:i]
		}
	}
	return ""
}

// tooWide says why a directory is more than a program's installation.
func (a *adder) tooWide(dir string) string {
	home := a.host.Home
	if home != "" && slices.ContainsFunc([]string{".local", ".config", ".cache", ".local/share"}, func(name string) bool { return dir == path.Join(home, name) }) {
		return "where many programs keep what they have"
	}
	for _, d := range policy.SystemDirs {
		if policy.Inside(dir, d) {
			return "" // every sandbox has it
		}
	}
	if strings.Count(dir, "/") < 2 {
		return "a directory of the system"
	}
	why, _ := policy.Mistake(dir, home)
	return why
}
