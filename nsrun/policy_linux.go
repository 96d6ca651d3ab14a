package nsrun

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
)

// Policy is what a sandbox should be, checked and immutable: it can be shared by any number of sessions and goroutines. It is made by a
// [Builder], or of a [policy.Policy] that a front end has read ([FromPolicy], and the package nsrun/load for manifests). The zero Policy
// is that of [NewPolicy] without a call: the most closed one that is of use.
type Policy struct {
	spec      policy.Policy
	protected []string
	made      bool
}

// FromPolicy makes a Policy of what [policy.Normalize] makes of the wishes in p and of what the operator has decided: see load.Operator. Protected lists files of the host, by real path, that no sandbox may be able to write: manifests and ceilings. The error has every
// fault, each with its field.
func FromPolicy(p policy.Policy, op policy.Operator, protected ...string) (Policy, error) {
	p, err := policy.Normalize(clone(p), op)
	if err := errors.Join(err, checkSeccomp(p.Seccomp), commands.Check(p)); err != nil {
		return Policy{}, err
	}
	return Policy{spec: p, protected: slices.Clone(protected), made: true}, nil
}

// checkSeccomp asks what only the leaf knows: names of filters and of system calls, and what a filter may look like.
func checkSeccomp(s policy.Seccomp) error {
	if s.Filter == "" {
		s.Filter = plan.DefaultFilter
	}
	if _, err := (&plan.Seccomp{Filter: s.Filter, Deny: s.Deny, Raw: s.Raw}).Filters(runtime.GOARCH); err != nil {
		return &policy.Fault{Field: "seccomp", Text: err.Error()}
	}
	return nil
}

// Spec returns a copy of the policy as plain data.
func (p Policy) Spec() policy.Policy {
	if !p.made {
		return runner.DefaultPolicy()
	}
	return clone(p.spec)
}

// Protected returns the files of the host that no sandbox of the policy can write: see [FromPolicy].
func (p Policy) Protected() []string { return slices.Clone(p.protected) }

// With returns the policy as change makes it, checked again.
func (p Policy) With(change func(policy.Policy) (policy.Policy, error)) (Policy, error) {
	changed, err := change(p.Spec())
	if err != nil {
		return Policy{}, err
	}
	return FromPolicy(changed, policy.Operator{}, p.protected...)
}

func clone(p policy.Policy) policy.Policy {
	p.FS, p.Limits, p.Require, p.Notes = slices.Clone(p.FS), slices.Clone(p.Limits), slices.Clone(p.Require), slices.Clone(p.Notes)
	p.Audit, p.Labels, p.ProtectPaths, p.Tools = slices.Clone(p.Audit), slices.Clone(p.Labels), slices.Clone(p.ProtectPaths), slices.Clone(p.Tools)
	p.Env.Pass, p.Env.Set = slices.Clone(p.Env.Pass), slices.Clone(p.Env.Set)
	p.CommandRules = slices.Clone(p.CommandRules)
	for i := range p.CommandRules {
		programs := slices.Clone(p.CommandRules[i].Programs)
		for k := range programs {
			programs[k].Shapes = slices.Clone(programs[k].Shapes)
		}
		p.CommandRules[i].Programs = programs
	}
	p.Seccomp.Deny, p.Seccomp.Raw = slices.Clone(p.Seccomp.Deny), slices.Clone(p.Seccomp.Raw)
	return p
}

// Builder collects a policy. Each method adds to it and returns it, for chaining; all that is wrong comes out of [Builder.Build] at once.
type Builder struct {
	spec   policy.Policy
	tools  []string
	faults []error
}

// NewPolicy begins with the most closed policy that is of use: the system's directories read-only, private and empty /tmp, /proc and /dev,
// no network, nothing of the environment but locale, terminal and time zone. Commands start in "/".
func NewPolicy() *Builder { return &Builder{spec: runner.DefaultPolicy()} }

// abs makes a path that a method was given absolute. It reports whether that can be one.
func (b *Builder) abs(method, path string) (string, bool) {
	abs, err := filepath.Abs(path)
	if path == "" {
		err = errors.New("the path is empty")
	}
	if err != nil {
		b.faults = append(b.faults, fmt.Errorf("%s(%q): %w", method, path, err))
	}
	return abs, err == nil
}

func (b *Builder) grant(method string, kind policy.Kind, write bool, paths ...string) *Builder {
	for _, path := range paths {
		if abs, ok := b.abs(method, path); ok {
			b.spec.FS = append(b.spec.FS, policy.FS{Kind: kind, Source: abs, Dest: abs, Write: write, Why: method})
		}
	}
	return b
}

// Workspace shows the directory writable, and has commands start in it. A relative path is one of this process's working directory.
func (b *Builder) Workspace(dir string) *Builder { return b.workspace(dir, "") }

// WorkspaceAt is [Builder.Workspace], shown at another place, such as "/workspace".
func (b *Builder) WorkspaceAt(dir, at string) *Builder { return b.workspace(dir, filepath.Clean(at)) }

func (b *Builder) workspace(dir, at string) *Builder {
	if abs, ok := b.abs("Workspace", dir); ok {
		b.spec.Dir = cmp.Or(at, abs)
		b.spec.FS = append(b.spec.FS, policy.FS{Kind: policy.Bind, Source: abs, Dest: b.spec.Dir, Write: true, Directory: true, Why: "Workspace"})
	}
	return b
}

// ReadOnly shows files and directories of the host read-only, at their own places.
func (b *Builder) ReadOnly(paths ...string) *Builder {
	return b.grant("ReadOnly", policy.Bind, false, paths...)
}

// ReadWrite shows files and directories of the host writable, at their own places.
func (b *Builder) ReadWrite(paths ...string) *Builder {
	return b.grant("ReadWrite", policy.Bind, true, paths...)
}

// Socket shows Unix sockets of the host, one by one.
func (b *Builder) Socket(paths ...string) *Builder {
	return b.grant("Socket", policy.Socket, true, paths...)
}

// Protect says what is done about places in writable directories that make the host run something, such as git hooks. Paths are further files and
// directories that stay read-only where they exist, and are compared. The default level is [policy.ProtectReport].
func (b *Builder) Protect(level policy.Protect, paths ...string) *Builder {
	b.spec.Protect = level
	for _, path := range paths {
		if abs, ok := b.abs("Protect", path); ok {
			b.spec.ProtectPaths = append(b.spec.ProtectPaths, abs)
		}
	}
	return b
}

// Dir is where commands start, a path inside.
func (b *Builder) Dir(path string) *Builder { b.spec.Dir = path; return b }

// Allow adds rules for what can be reached, such as "example.com:443": see package netrule. The network is [policy.NetworkAllow] then. It is for
// [Run]; sessions refuse it. The program nsrun-helper has to lie beside this one.
func (b *Builder) Allow(rules ...string) *Builder {
	b.spec.Network, b.spec.Allow = policy.NetworkAllow, append(b.spec.Allow, rules...)
	return b
}

// ProxyEnv has a proxy for HTTP and SOCKS5 on the loopback of a network with rules, and sets the variables that name it: see [policy.Policy].
func (b *Builder) ProxyEnv() *Builder { b.spec.ProxyEnv = true; return b }

// Network says what can be reached; the default is [policy.NetworkNone].
func (b *Builder) Network(n policy.Network) *Builder { b.spec.Network = n; return b }

// PassEnv passes variables of this process's environment. Names that look like secrets are never passed; see [Builder.SetEnv].
func (b *Builder) PassEnv(names ...string) *Builder {
	b.spec.Env.Pass = append(b.spec.Env.Pass, names...)
	return b
}

// SetEnv sets a variable.
func (b *Builder) SetEnv(name, value string) *Builder {
	b.spec.Env.Set = append(b.spec.Env.Set, policy.Var{Name: name, Value: value})
	return b
}

// Timeout bounds each command in wall-clock time; 0, the default, does not.
func (b *Builder) Timeout(d time.Duration) *Builder { b.spec.Timeout = d; return b }

// KillGrace is the time between SIGTERM and SIGKILL; 0 means [policy.DefaultKillGrace].
func (b *Builder) KillGrace(d time.Duration) *Builder { b.spec.KillGrace = d; return b }

// Limit sets one of [policy.LimitTable], in the unit of its name.
func (b *Builder) Limit(name string, value int64) *Builder {
	b.spec = b.spec.WithLimit(name, value)
	return b
}

// Seccomp names the filter of system calls, and calls to refuse besides.
func (b *Builder) Seccomp(filter string, deny ...string) *Builder {
	b.spec.Seccomp.Filter, b.spec.Seccomp.Deny = filter, append(b.spec.Seccomp.Deny, deny...)
	return b
}

// Commands says which command lines may run at all: "passive", "full", or a name given to [Builder.DefineCommands]. See package commands.
func (b *Builder) Commands(name string) *Builder { b.spec.Commands = name; return b }

// DefineCommands adds command rules of the caller's own.
func (b *Builder) DefineCommands(p policy.CommandRules) *Builder {
	b.spec.CommandRules = append(b.spec.CommandRules, p)
	return b
}

// Hostname is the host's name inside; the default is "sandbox".
func (b *Builder) Hostname(name string) *Builder { b.spec.Hostname = name; return b }

// Backend names the backend, and accepts what it declares to lose.
func (b *Builder) Backend(e policy.Backend) *Builder { b.spec.Backend = e; return b }

// Degrade accepts what this host cannot enforce, with the strongest backend that works. Each loss is in the receipts.
func (b *Builder) Degrade() *Builder { b.spec.Fallback = policy.Degrade; return b }

// Require lists guarantees that must hold whatever else is set, and "tools", which refuses what a preset cannot show.
func (b *Builder) Require(names ...string) *Builder {
	b.spec = b.spec.Requiring(names...)
	return b
}

// SelfTest has each sandbox try what must fail before it is used.
func (b *Builder) SelfTest() *Builder { b.spec.SelfTest = true; return b }

// Audit has a row appended to the file when a command starts and one when it has ended: see the package audit. A command whose start cannot
// be written is not run. No sandbox is shown the file. A relative path is one of this process's working directory.
func (b *Builder) Audit(path string) *Builder {
	if abs, ok := b.abs("Audit", path); ok {
		b.spec.Audit = append(b.spec.Audit, abs)
	}
	return b
}

// Label adds a word of the caller's own, such as its task, to the rows of audit logs. The last value of a name counts. See
// [policy.CheckLabel] for what can be one.
func (b *Builder) Label(name, value string) *Builder {
	labels, err := policy.WithLabels(b.spec.Labels, policy.Var{Name: name, Value: value})
	if err != nil {
		b.faults = append(b.faults, fmt.Errorf("Label(%q, %q): %w", name, value, err))
		return b
	}
	b.spec.Labels = labels
	return b
}

// Explain has results report what was refused to a command, and what would allow it: see [result.Result]. It is off by default. Each opening of a file
// then takes some 10 µs more.
func (b *Builder) Explain(level policy.Explain) *Builder {
	b.spec.Explain = level
	return b
}

// Tools adds presets of what tools need, such as the host's caches: by name, or by the path of a file with a row. What the policy says of a place or a
// variable wins, whatever the order of calls. See the package tools.
func (b *Builder) Tools(names ...string) *Builder {
	b.tools = append(b.tools, names...)
	return b
}

// Build validates the policy. The error has every fault.
func (b *Builder) Build() (Policy, error) {
	spec := b.spec
	spec.Tools = b.tools
	spec, rows, toolErr := tools.Add(spec, policy.Operator{}, tools.Here())
	p, err := FromPolicy(spec, policy.Operator{}, rows...)
	if err = errors.Join(append(slices.Clone(b.faults), toolErr, err)...); err != nil {
		return Policy{}, err
	}
	return p, nil
}
