package landlock

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Lower appends the system calls that enforce r on the calling thread: one ruleset, one rule for each path, and restrict_self. The paths
// are opened when the program runs. The thread must have no_new_privs set, and r must be a result of [Fit].
func Lower(p *sys.Program, r Ruleset) {
	ruleset := sys.Of(Build(p, r))
	Restrict(p, ruleset)
	p.Add(unix.SYS_CLOSE, ruleset)
}

// Build appends the calls that make a ruleset from r, and returns the slot with its descriptor. [Restrict] can enforce it any number of
// times.
func Build(p *sys.Program, r Ruleset) sys.Slot {
	ruleset := p.Slot()
	create(p, r).Keep(ruleset)
	Extend(p, sys.Of(ruleset), r)
	return ruleset
}

// Create makes a ruleset that handles the rights of r and has no rules yet, and returns its descriptor, which is close-on-exec. r must be a
// result of [Fit]. [Extend] adds rules. An error is one of landlock_create_ruleset(2).
func Create(r Ruleset) (fd int, err error) {
	var p sys.Program
	made := int32(-1)
	create(&p, r).Into(&made)
	err = p.Run()
	return int(made), err
}

// Extend appends the calls that add the rules of r to a ruleset, which handles the rights of r.
func Extend(p *sys.Program, ruleset sys.Arg, r Ruleset) {
	step := func(path string) { p.At(sys.Step{Stage: "landlock", Op: "rule", Path: path}) }
	fd := p.Slot()
	exact := exactRights(r.Paths)
	for _, rule := range r.Paths {
		step(rule.Path)
		access := rule.given()
		if access == 0 || rule.Exact && given(exact, rule, access) {
			continue
		}
		attr := &pathBeneath{Access: access}
		var open *sys.Call
		parent := sys.Slot(0)
		if rule.Exact && r.ByName {
			open, parent = walk(p, rule.Path, fd)
		} else if rule.Exact {
			how := &openHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
			open = p.Add(unix.SYS_OPENAT2, sys.AtCWD(), sys.Str(rule.Path), sys.Struct(how), sys.Size(how))
		} else {
			open = p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(rule.Path), sys.Words(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, "O_PATH|O_NOFOLLOW|O_CLOEXEC"))
		}
		open.Keep(fd).Into(&attr.FD)
		if rule.Optional {
			open.Tolerate(unix.ENOENT, 2)
		}
		p.Add(unix.SYS_LANDLOCK_ADD_RULE, ruleset, sys.Words(unix.LANDLOCK_RULE_PATH_BENEATH, "LANDLOCK_RULE_PATH_BENEATH"),
			sys.Struct(attr), sys.Int(0))
		p.Add(unix.SYS_CLOSE, sys.Of(fd))
		if parent != 0 {
			p.Add(unix.SYS_CLOSE, sys.Of(parent))
		}
	}
	for _, rule := range r.Ports {
		step(fmt.Sprintf("port %d", rule.Port))
		attr := &netPort{Access: uint64(rule.Access), Port: uint64(rule.Port)}
		p.Add(unix.SYS_LANDLOCK_ADD_RULE, ruleset, sys.Words(ruleNetPort, "LANDLOCK_RULE_NET_PORT"), sys.Struct(attr), sys.Int(0))
	}
}

// Adder adds rules to a ruleset, one at a time, for files that are open. It needs no memory for each.
type Adder struct {
	attr *pathBeneath
	add  func() error
}

// NewAdder returns an adder to a ruleset made by [Create].
func NewAdder(ruleset int) *Adder {
	var p sys.Program
	a := &Adder{attr: &pathBeneath{}}
	p.Add(unix.SYS_LANDLOCK_ADD_RULE, sys.Int(ruleset), sys.Words(unix.LANDLOCK_RULE_PATH_BENEATH, "LANDLOCK_RULE_PATH_BENEATH"), sys.Struct(a.attr), sys.Int(0))
	a.add = p.Again()
	return a
}

// Add adds a rule with the rights of rule for what fd has open. The kernel refuses a rule without rights, so there is none. An error is one of
// landlock_add_rule(2).
func (a *Adder) Add(fd int, rule PathRule) error {
	if a.attr.Access, a.attr.FD = rule.given(), int32(fd); a.attr.Access == 0 {
		return nil
	}
	return a.add()
}

// given returns the rights that the rule gives: only some mean something for a file.
func (r PathRule) given() Access {
	if r.File {
		return r.Access & fileRights
	}
	return r.Access
}

// exactRights returns what the rules give that are for directories with no symlink on the way: that which must be there, and all.
func exactRights(rules []PathRule) (exact [2]map[string]Access) {
	exact[0], exact[1] = make(map[string]Access, len(rules)), make(map[string]Access, len(rules))
	for _, r := range rules {
		if r.Exact && !r.File {
			exact[1][r.Path] |= r.Access
			if !r.Optional {
				exact[0][r.Path] |= r.Access
			}
		}
	}
	return exact
}

// given reports whether a rule of one of the directories above a rule's path gives all of access. Then the rule gives nothing more: Landlock adds
// up the rights on the way from a file to the root, over mount points too (is_access_to_paths_allowed in security/landlock/fs.c). Without a
// rule of its own a directory loses them if the host moves it out of the one above. Where a directory is missing that need not be there, all
// below it is missing too.
func given(exact [2]map[string]Access, rule PathRule, access Access) bool {
	above := exact[0]
	if rule.Optional {
		above = exact[1]
	}
	for path := rule.Path; len(path) > 1; {
		path = path[:max(1, strings.LastIndexByte(path, '/'))]
		if access&^above[path] == 0 {
			return true
		}
	}
	return false
}

// walk opens path, name by name, into fd. It opens the directory of the last name into parent, unless path is "/". A symlink on the way is
// an error (O_DIRECTORY). If the last name is a symlink, the rule holds for the symlink itself and grants nothing at its target.
func walk(p *sys.Program, path string, fd sys.Slot) (open *sys.Call, parent sys.Slot) {
	names := append([]string{"/"}, strings.FieldsFunc(path, func(r rune) bool { return r == '/' })...)
	at := sys.AtCWD()
	slots := [2]sys.Slot{fd, 0}
	if len(names) > 1 {
		parent = p.Slot()
		slots[1] = parent
	}
	for i, name := range names {
		left := len(names) - 1 - i
		flags, words := uint64(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC), "O_PATH|O_NOFOLLOW|O_CLOEXEC"
		if left > 0 {
			flags, words = flags|unix.O_DIRECTORY, words+"|O_DIRECTORY"
		}
		to := slots[left%2]
		open = p.Add(unix.SYS_OPENAT, at, sys.Str(name), sys.Words(flags, words)).Keep(to)
		if i > 0 && left > 0 {
			p.Add(unix.SYS_CLOSE, sys.Of(slots[(left+1)%2]))
		}
		at = sys.Of(to)
	}
	return open, parent
}

// Restrict appends the call that enforces a ruleset.
func Restrict(p *sys.Program, ruleset sys.Arg) {
	p.At(sys.Step{Stage: "landlock", Op: "restrict"})
	p.Add(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, sys.Int(0))
}

const ruleNetPort = 2 // LANDLOCK_RULE_NET_PORT, include/uapi/linux/landlock.h

// openHow is struct open_how of openat2(2).
type openHow struct{ Flags, Mode, Resolve uint64 }

func (h *openHow) String() string { return "{O_PATH|O_NOFOLLOW|O_CLOEXEC, RESOLVE_NO_SYMLINKS}" }

// pathBeneath is struct landlock_path_beneath_attr. The kernel's structure is packed; it does not read the last four bytes here.
type pathBeneath struct {
	Access Access
	FD     int32
	_      int32
}

func (a *pathBeneath) String() string { return "{" + a.Access.String() + "}" }

// netPort is struct landlock_net_port_attr.
type netPort struct{ Access, Port uint64 }

func (a *netPort) String() string {
	return fmt.Sprintf("{%s, %d}", strings.Join(Net(a.Access).Names(), "|"), a.Port)
}

// rulesetAttr is struct landlock_ruleset_attr as of ABI 6. An older kernel accepts it if the fields that the kernel does not know are zero
// (copy_min_struct_from_user).
type rulesetAttr struct {
	FS     Access
	Net    Net
	Scoped Scope
}

func (a *rulesetAttr) String() string {
	return fmt.Sprintf("{fs=%s, net=%s, scoped=%s}", strings.Join(a.FS.Names(), "|"), strings.Join(a.Net.Names(), "|"),
		strings.Join(a.Scoped.Names(), "|"))
}

// create appends the call that makes a ruleset which handles the rights of r.
func create(p *sys.Program, r Ruleset) *sys.Call {
	attr := &rulesetAttr{FS: r.HandledFS, Net: r.HandledNet, Scoped: r.Scoped}
	p.At(sys.Step{Stage: "landlock", Op: "create ruleset"})
	return p.Add(unix.SYS_LANDLOCK_CREATE_RULESET, sys.Struct(attr), sys.Size(attr), sys.Int(0))
}

// Apply sets no_new_privs and enforces r on the calling thread and on everything that it starts later. Neither can be undone. The goroutine
// should be locked to its thread. Apply stops at the first failure; the rules take effect only if the kernel accepts all of them.
func Apply(r Ruleset) error {
	var p sys.Program
	p.At(sys.Step{Stage: "no_new_privs"})
	p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS"), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	Lower(&p, r)
	return p.Run()
}
