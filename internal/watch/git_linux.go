package watch

import (
	"errors"
	"path"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"golang.org/x/sys/unix"
)

// bare reports whether git takes a directory itself for a git directory: see is_git_directory in git's setup.c.
func bare(dir int, in names) bool {
	if in != nil {
		return in["HEAD"] && in["objects"] && in["refs"] || in["HEAD"] && in["commondir"]
	}
	var st unix.Stat_t
	return unix.Fstatat(dir, "HEAD", &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// git looks at the root's .git.
func (l *look) git(first *leads) {
	const name = ".git"
	fd, err := openDir(l.root, name)
	switch {
	case err == nil:
		defer unix.Close(fd)
		l.directory(fd, name)
		if l.strict {
			l.kept = append(l.kept, name)
		}
		l.gitDir(fd, l.list(fd, name), name)
	case errors.Is(err, unix.ENOENT):
		l.absent[name] = true
	default:
		data := l.file(l.root, name, name, hostrun.WhyGitDir, false)
		if l.first && l.strict && data != nil {
			l.kept = append(l.kept, name)
		}
		if target, ok := strings.CutPrefix(string(data), "gitdir: "); ok && first == nil {
			l.leads.gitDir, _ = l.below("", strings.TrimSpace(target))
		}
		if first == nil {
			first = &l.leads
		}
		if to := first.gitDir; to != "" {
			l.at(l.root, nil, "", to+"/.", func(dir int, _, _ string) { l.gitDir(dir, l.list(dir, to), to) })
		}
	}
}

// below makes of a path that something in the directory dir names one below the root, if it lies there.
func (l *look) below(dir, name string) (string, bool) {
	switch {
	case !path.IsAbs(name):
		name = path.Join(dir, name)
	case name == l.source:
		return "", false
	default:
		rest, ok := strings.CutPrefix(path.Clean(name), strings.TrimSuffix(l.source, "/")+"/")
		if !ok {
			return "", false
		}
		name = rest
	}
	return name, name != "." && name != ".." && name != "" && !strings.HasPrefix(name, "../")
}

// gitDir looks at a git directory.
func (l *look) gitDir(dir int, in names, base string) {
	for _, row := range hostrun.Rows(hostrun.GitDir) {
		l.row(dir, in, base, row)
	}
	if in.may("modules") {
		l.modules(dir, "modules", path.Join(base, "modules"), maxLevels)
	}
	if in.may("worktrees") {
		l.each(dir, "worktrees", path.Join(base, "worktrees"), func(fd int, _, at string) {
			for _, row := range hostrun.Rows(hostrun.Worktree) {
				l.row(fd, nil, at, row)
			}
			if l.list(fd, at).may("modules") { // git keeps a worktree's submodules apart from those of the repository
				l.modules(fd, "modules", path.Join(at, "modules"), maxLevels)
			}
		})
	}
}

// each opens the directories in one, of which it takes so many as are looked at.
func (l *look) each(dir int, name, at string, found func(fd int, name, at string)) {
	fd, err := openDir(dir, name)
	if err != nil {
		l.file(dir, name, at, hostrun.WhyGitDir, false)
		return
	}
	defer unix.Close(fd)
	l.directory(fd, at)
	all, whole := l.listUpTo(fd, at, maxEntries)
	if !whole {
		l.tooMany(fd, at, hostrun.WhyGitDir)
		return
	}
	for _, name := range all {
		sub, err := openDir(fd, name)
		switch {
		case err == nil:
			l.directory(sub, path.Join(at, name))
			if l.gitDirs++; l.gitDirs > maxGitDirs {
				l.tooMany(sub, path.Join(at, name), hostrun.WhyGitDir)
			} else {
				found(sub, name, path.Join(at, name))
			}
			unix.Close(sub)
		case errors.Is(err, unix.ELOOP):
			l.file(fd, name, path.Join(at, name), hostrun.WhyGitDir, false)
		}
	}
}

// modules looks at the git directories of submodules, whose names can have slashes.
func (l *look) modules(dir int, name, at string, levels int) {
	l.each(dir, name, at, func(fd int, _, at string) {
		in := l.list(fd, at)
		switch {
		case bare(fd, in):
			l.gitDir(fd, in, at)
		case levels > 1:
			l.modules(fd, ".", at, levels-1) // opened anew, as it was listed
		}
	})
}

// commonDir looks at the file commondir of a worktree, which is usual if it names the directory two above.
func (l *look) commonDir(dir int, name, at string, row hostrun.Row) {
	s, data, _ := l.read(dir, name, at, maxBytes)
	if s.value != "" && strings.TrimSpace(string(data)) != "../.." {
		s.why = row.Why
		l.items[item{at, ""}] = s
	}
}

// todo looks at the list of a rebase.
func (l *look) todo(dir int, name, at string, row hostrun.Row) {
	s, data, st := l.read(dir, name, at, maxBytes)
	if s.value == "" {
		return
	}
	s.why = row.Why
	if data == nil && st.Size > 0 {
		l.items[item{at, ""}] = s
	}
	if lines := hostrun.TodoCommands(data); len(lines) > 0 {
		l.items[item{at, ""}] = state{value: strings.Join(lines, "\n"), words: "has commands", why: row.Why}
	}
}
