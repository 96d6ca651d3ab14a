package stages

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// ResolvedRules returns the plan's rules at the paths where their mounts are, without the rules of mounts that are missing, covered or
// symlinks. Lowering has found these paths free of symlinks, and the mounts follow none on the way to them. A symlink on such a path was
// put there later, and is an error (Exact).
func ResolvedRules(p *plan.Plan, resolved []mounts.Resolved) ([]landlock.PathRule, error) {
	rules, later := resolvedRules(p, resolved)
	for _, d := range later {
		entries, err := d.rules()
		if err != nil {
			return nil, err
		}
		rules = append(rules, entries...)
	}
	return rules, nil
}

// byEntry is a directory whose rule is given to its entries, where the host has it, and what the view covers in it: something.
type byEntry struct {
	rule    landlock.PathRule
	from    string
	covered []string
}

// rules returns the rules of the entries.
func (d *byEntry) rules() ([]landlock.PathRule, error) {
	return around(d.rule, d.from, d.covered, true)
}

// resolvedRules is ResolvedRules without the entries of such directories.
func resolvedRules(p *plan.Plan, resolved []mounts.Resolved) (rules []landlock.PathRule, later []byEntry) {
	at := make(map[string]int, len(resolved))
	for i := range resolved {
		if former, ok := at[p.Mounts[i].Dest]; !ok || resolved[former].Missing || resolved[former].Covered { // the first mount that is visible there
			at[p.Mounts[i].Dest] = i
		}
	}
	rules = make([]landlock.PathRule, 0, len(p.Landlock.Paths))
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
		d := byEntry{rule, s.Source, covers(p, rule.Path)}
		if above(rule.Path, d.covered) {
			later = append(later, d)
		} else {
			rules = append(rules, rule)
		}
	}
	return rules, later
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

// around returns rules that grant what rule grants, but not the covered paths in it: see spreading. from is where the host has what rule.Path
// names. With public, an entry of a directory above a cover that not everybody may read is granted to nobody.
func around(rule landlock.PathRule, from string, covered []string, public bool) (rules []landlock.PathRule, err error) {
	if slices.Contains(covered, rule.Path) { // all of it is covered
		return nil, nil
	}
	if !above(rule.Path, covered) {
		return []landlock.PathRule{rule}, nil
	}
	s := spreading{covered: covered, public: public, grant: func(_ int, name []byte, rule landlock.PathRule) error {
		rules = append(rules, named(name, rule))
		return nil
	}}
	s.reserve(rule.Path, covered)
	return rules, s.directory(unix.AT_FDCWD, sys.EntryName(from), rule)
}

// named returns the rule of a directory as that of an entry.
func named(name []byte, rule landlock.PathRule) landlock.PathRule {
	if name != nil {
		rule.Path = strings.TrimSuffix(rule.Path, "/") + "/" + string(name)
	}
	return rule
}

// above reports whether something that is covered lies below a directory.
func above(dir string, covered []string) bool {
	return slices.ContainsFunc(covered, func(c string) bool {
		return len(c) > len(dir) && c[:len(dir)] == dir && (c[len(dir)] == '/' || dir == "/")
	})
}
