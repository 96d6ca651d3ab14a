package landlock

import (
	"cmp"
	"slices"
	"strings"
)

// Access is a set of file system rights, in the bits of the kernel (include/uapi/linux/landlock.h).
type Access uint64

// Net is a set of network rights.
type Net uint64

// Scope is a set of things that are confined to the domain.
type Scope uint64

// PathRule allows Access to Path and, for a directory, to all below it.
type PathRule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	// Optional lets the rule be left out when Path does not exist.
	Optional bool `json:"optional,omitempty"`
	// Exact refuses a Path with a symlink anywhere on the way: it has been resolved already, and must not lead elsewhere by now.
	Exact bool `json:"exact,omitempty"`
	// File says that Path is not a directory; the kernel takes fewer rights for it, and the others are left out.
	File bool `json:"file,omitempty"`
}

// PortRule allows Access to one TCP or UDP port.
type PortRule struct {
	Port   uint16 `json:"port"`
	Access Net    `json:"access"`
}

// Ruleset is what stays allowed once it is enforced. Every file system right is handled, so whatever Paths do not allow is
// refused. Network rights are handled only if they are in HandledNet.
type Ruleset struct {
	Paths      []PathRule `json:"paths"`
	HandledFS  Access     `json:"handled_fs"`
	HandledNet Net        `json:"handled_net,omitempty"`
	Ports      []PortRule `json:"ports,omitempty"`
	Scoped     Scope      `json:"scoped,omitempty"`
	// ByName opens the paths of exact rules name by name, where openat2(2) is missing or a seccomp filter refuses it, as in a sandbox.
	ByName bool `json:"-"`
}

// Loss is one right that a kernel cannot enforce.
type Loss struct {
	Right string // as the kernel's header names it, in lower case: "truncate", "scope_signal"
	Since int    // the ABI that has it
}

// Fit returns the part of r that ABI abi can enforce, and what was lost. abi 0 means no Landlock: all is lost. Before ABI 2 moving
// and linking files between directories is always refused; that is stricter than asked and not a loss.
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

// Merge joins rules for the same path and sorts them, so that equal rulesets print alike.
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

// Names lists the rights in a, in the kernel's order.
func (a Access) Names() []string {
	var out []string
	for _, right := range table {
		if right.FS&a != 0 {
			out = append(out, right.Name)
		}
	}
	return out
}

// String gives "r", "rx", "rw", "rwx" for the usual sets, and the names of the rights otherwise.
func (a Access) String() string { return a.Word(AllFS) }

// Word gives the same for rights of which only those in handled can be enforced.
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

// Names lists the scopes in s.
func (s Scope) Names() []string {
	var out []string
	for _, right := range table {
		if right.Scope&s != 0 {
			out = append(out, right.Name)
		}
	}
	return out
}

// Names lists the network rights in n.
func (n Net) Names() []string {
	var out []string
	for _, right := range table {
		if right.Net&n != 0 {
			out = append(out, right.Name)
		}
	}
	return out
}
