package landlock

import (
	"cmp"
	"slices"
	"strings"
)

// Access is a set of file system rights, with the kernel's bits (include/uapi/linux/landlock.h).
type Access uint64

// Net is a set of network rights.
type Net uint64

// Scope is a set of interactions that are confined to the Landlock domain.
type Scope uint64

// PathRule allows Access to Path and, if Path is a directory, to everything below it.
type PathRule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	// Optional leaves the rule out if Path does not exist.
	Optional bool `json:"optional,omitempty"`
	// Exact refuses a symlink anywhere in Path. Path has been resolved already and must still lead to the same place.
	Exact bool `json:"exact,omitempty"`
	// File means that Path is not a directory. The kernel accepts fewer rights for it, and the others are left out.
	File bool `json:"file,omitempty"`
}

// PortRule allows Access to one TCP or UDP port.
type PortRule struct {
	Port   uint16 `json:"port"`
	Access Net    `json:"access"`
}

// Ruleset lists what stays allowed once it is enforced. The rights in HandledFS, HandledNet and Scoped are refused, except where a rule in
// Paths or Ports allows them. A right that is not handled stays allowed everywhere.
type Ruleset struct {
	Paths      []PathRule `json:"paths"`
	HandledFS  Access     `json:"handled_fs"`
	HandledNet Net        `json:"handled_net,omitempty"`
	Ports      []PortRule `json:"ports,omitempty"`
	Scoped     Scope      `json:"scoped,omitempty"`
	// ByName opens the paths of exact rules name by name. It is for hosts without openat2(2) and for sandboxes whose seccomp filter refuses
	// it.
	ByName bool `json:"-"`
}

// Loss is one right that a kernel cannot enforce.
type Loss struct {
	Right string // the kernel header's name, in lower case: "truncate", "scope_signal"
	Since int    // the ABI that introduced it
}

// Fit returns the part of r that ABI abi can enforce, and the rights that are lost. abi 0 means no Landlock: everything is lost. Before ABI
// 2, moving and linking files between directories is always refused. That is stricter than requested, so it is no loss.
func Fit(r Ruleset, abi int) (Ruleset, []Loss) {
	var lost []Loss
	var fs Access
	var net Net
	var scope Scope
	for _, right := range table {
		switch {
		case right.Since <= abi:
			fs |= right.FS
			net |= right.Net
			scope |= right.Scope
		case r.HandledFS&right.FS != 0 && right.FS != Refer, r.HandledNet&right.Net != 0, r.Scoped&right.Scope != 0:
			lost = append(lost, Loss{right.Name, right.Since})
		}
	}
	out := Ruleset{HandledFS: r.HandledFS & fs, HandledNet: r.HandledNet & net, Scoped: r.Scoped & scope}
	for _, p := range r.Paths {
		if p.Access &= out.HandledFS; p.Access != 0 {
			out.Paths = append(out.Paths, p)
		}
	}
	for _, p := range r.Ports {
		if p.Access &= out.HandledNet; p.Access != 0 {
			out.Ports = append(out.Ports, p)
		}
	}
	return out, lost
}

// Merge combines the rules for each path and sorts them by path, so that equal rulesets print alike.
func Merge(rules []PathRule) []PathRule {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b PathRule) int { return cmp.Compare(a.Path, b.Path) })
	var out []PathRule
	for _, r := range rules {
		if n := len(out); n > 0 && out[n-1].Path == r.Path {
			out[n-1].Access |= r.Access
			out[n-1].Optional = out[n-1].Optional && r.Optional
			continue
		}
		out = append(out, r)
	}
	return out
}

// Names returns the names of the rights in a, in the kernel's order.
func (a Access) Names() []string {
	var out []string
	for _, right := range table {
		if right.FS&a != 0 {
			out = append(out, right.Name)
		}
	}
	return out
}

// String returns "r", "rx", "rw" or "rwx" for the usual sets, and otherwise the names of the rights.
func (a Access) String() string { return a.Word(AllFS) }

// Word returns the same as String if only the rights in handled can be enforced.
func (a Access) Word(handled Access) string {
	for _, set := range []struct {
		access Access
		word   string
	}{{ReadOnly, "r"}, {ReadExec, "rx"}, {ReadWrite &^ Execute, "rw"}, {ReadWrite, "rwx"}, {Device | ReadDir, "dev"}} {
		if a == set.access&handled {
			return set.word
		}
	}
	return strings.Join(a.Names(), ",")
}

// Names returns the names of the scopes in s.
func (s Scope) Names() []string {
	var out []string
	for _, right := range table {
		if right.Scope&s != 0 {
			out = append(out, right.Name)
		}
	}
	return out
}

// Names returns the names of the network rights in n.
func (n Net) Names() []string {
	var out []string
	for _, right := range table {
		if right.Net&n != 0 {
			out = append(out, right.Name)
		}
	}
	return out
}
