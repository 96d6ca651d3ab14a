package stages

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// ResolvedRules returns the plan's rules at the paths where their mounts are, without the rules of mounts that are missing, covered or
// symlinks. Lowering has found these paths free of symlinks, and the mounts follow none on the way to them. A symlink on such a path was
// put there later, and is an error (Exact).
func ResolvedRules(p *plan.Plan, resolved []mounts.Resolved) ([]landlock.PathRule, error) {
	at := make(map[string]int, len(resolved))
	for i := range resolved {
		if former, ok := at[p.Mounts[i].Dest]; !ok || resolved[former].Missing || resolved[former].Covered { // the first mount that is visible there
			at[p.Mounts[i].Dest] = i
		}
	}
	rules := make([]landlock.PathRule, 0, len(p.Landlock.Paths))
	for _, rule := range p.Landlock.Paths {
		i, ok := at[rule.Path]
		var s mounts.Resolved
		if ok {
			s = resolved[i]
		}
		if s.Missing || s.Link || s.Covered { // the target of a link has its own rule
			continue
		}
		if ok {
			rule.File, rule.Path = s.File, s.Dest
		}
		rule.Exact = true
		if !ok || s.File || !slices.Contains(p.Landlock.ByEntry, p.Mounts[i].Dest) {
			rules = append(rules, rule)
			continue
		}
		spread, err := around(rule, s.Source, covers(p, rule.Path), true)
		if err != nil {
			return nil, err
		}
		rules = append(rules, spread...)
	}
	return rules, nil
}

// covers are the places below a directory that the view covers, whether there is something on the host or not.
func covers(p *plan.Plan, dir string) (at []string) {
	for _, op := range p.Mounts {
		if strings.HasPrefix(op.Dest, dir+"/") {
			at = append(at, op.Dest)
		}
	}
	return at
}

// bareRules returns the Landlock rules of a plan without mounts. They name the real paths of the granted files, and leave out the masked
// ones.
func bareRules(p *plan.Plan, resolved []mounts.Resolved) ([]landlock.PathRule, error) {
	var masks []string
	at := map[string]mounts.Resolved{}
	for i, op := range p.Mounts {
		switch {
		case resolved[i].Missing:
		case op.Kind == mounts.Mask:
			masks = append(masks, resolved[i].Source)
		default:
			at[op.Dest] = resolved[i]
		}
	}
	var rules []landlock.PathRule
	for _, rule := range p.Landlock.Paths {
		s, ok := at[rule.Path]
		if !ok {
			continue
		}
		rule.Path, rule.File, rule.Exact = s.Source, s.File, true
		spread, err := around(rule, s.Source, masks, slices.Contains(p.Landlock.ByEntry, s.Dest))
		if err != nil {
			return nil, err
		}
		rules = append(rules, spread...)
	}
	return landlock.Merge(rules), nil
}

// around returns rules that grant what rule grants, but not the covered paths in it. It grants the other entries one by one, because a
// Landlock rule for a directory applies to all below it. Directories on the way to a cover can be listed. from is where the host has what rule.Path
// names. With public, an entry of such a directory that not everybody may read is granted to nobody.
func around(rule landlock.PathRule, from string, covered []string, public bool) ([]landlock.PathRule, error) {
	if slices.Contains(covered, rule.Path) { // all of it is covered
		return nil, nil
	}
	if !above(rule.Path, covered) {
		return []landlock.PathRule{rule}, nil
	}
	entries, err := list(from)
	if rule.Optional && errors.Is(err, unix.ENOENT) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	rules := make([]landlock.PathRule, 1, 1+len(entries))
	rules[0] = landlock.PathRule{Path: rule.Path, Access: rule.Access & landlock.ReadDir, Optional: rule.Optional, Exact: true}
	for _, e := range entries {
		kind := e.mode & unix.S_IFMT
		if kind == unix.S_IFLNK || public && !e.public() { // the target of a link has a rule of its own, or none
			continue
		}
		one := rule
		one.Path, one.File, one.Optional = strings.TrimSuffix(rule.Path, "/")+"/"+e.name, kind != unix.S_IFDIR, true // it may disappear before the rule is added
		if slices.Contains(covered, one.Path) {
			continue
		}
		if one.File || !above(one.Path, covered) {
			rules = append(rules, one)
			continue
		}
		more, err := around(one, path.Join(from, e.name), covered, public)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

// above reports whether something that is covered lies below a directory.
func above(dir string, covered []string) bool {
	return slices.ContainsFunc(covered, func(c string) bool {
		return len(c) > len(dir) && c[:len(dir)] == dir && (c[len(dir)] == '/' || dir == "/")
	})
}

// dirEntry is an entry of a directory.
type dirEntry struct {
	name string
	mode uint32
}

// public reports whether everybody may read a file, or list and enter a directory.
func (e dirEntry) public() bool {
	want := uint32(unix.S_IROTH)
	if e.mode&unix.S_IFMT == unix.S_IFDIR {
		want |= unix.S_IXOTH
	}
	return e.mode&want == want
}

// list returns the entries of a directory whose path has no symlink. os.ReadDir would make an os.File and a string for each twice.
func list(dir string) ([]dirEntry, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	var names []string
	for buf := make([]byte, 8192); ; {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: dir, Err: err}
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	entries := make([]dirEntry, 0, len(names))
	for _, name := range names {
		var st unix.Stat_t
		switch err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err {
		case nil:
			entries = append(entries, dirEntry{name, st.Mode})
		case unix.ENOENT: // it is gone meanwhile
		default:
			return nil, &os.PathError{Op: "stat", Path: path.Join(dir, name), Err: err}
		}
	}
	return entries, nil
}
