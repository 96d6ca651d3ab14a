package runner

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// Short names for these tests.
type (
	Policy                   = policy.Policy
	Result                   = result.Result
	Verdict                  = result.Verdict
	LimitReceipt             = result.LimitReceipt
	Receipt                  = result.Receipt
	RefusedError             = policy.Fault
	PolicyCompatibilityError = plan.CompatibilityError
)

const (
	OK            = result.OK
	Exit          = result.Exit
	Signal        = result.Signal
	Timeout       = result.Timeout
	CPU           = result.CPU
	FileSize      = result.FileSize
	Memory        = result.Memory
	Pids          = result.Pids
	Output        = result.Output
	Interrupted   = result.Interrupted
	Lost          = result.Lost
	NotFound      = result.NotFound
	NotExecutable = result.NotExecutable
	Setup         = result.Setup
	Refused       = result.Refused
	CodeTimeout   = result.CodeTimeout
	CodeFailed    = result.CodeFailed
)

// Builder is that of the package nsrun, as far as these tests need it: nsrun imports this package.
type Builder struct {
	spec   policy.Policy
	faults []error
}

func NewPolicy() *Builder { return &Builder{spec: DefaultPolicy()} }

func FromPolicy(p policy.Policy, op policy.Operator) (policy.Policy, error) {
	p, err := policy.Normalize(p, op)
	return p, errors.Join(err, commands.Check(p))
}

func (b *Builder) Build() (policy.Policy, error) {
	p, err := FromPolicy(b.spec, policy.Operator{})
	return p, errors.Join(errors.Join(b.faults...), err)
}

func (b *Builder) grant(path, at string, kind policy.Kind, write, workspace bool) *Builder {
	abs, err := filepath.Abs(path)
	b.faults = append(b.faults, err)
	at = cmp.Or(at, abs)
	b.spec.FS = append(b.spec.FS, policy.FS{Kind: kind, Source: abs, Dest: at, Write: write, Directory: workspace, Why: "test"})
	if workspace {
		b.spec.Dir = at
	}
	return b
}

func (b *Builder) each(paths []string, kind policy.Kind, write bool) *Builder {
	for _, p := range paths {
		b.grant(p, "", kind, write, false)
	}
	return b
}

func (b *Builder) Workspace(dir string) *Builder { return b.grant(dir, "", policy.Bind, true, true) }
func (b *Builder) WorkspaceAt(dir, at string) *Builder {
	return b.grant(dir, at, policy.Bind, true, true)
}
func (b *Builder) ReadOnly(paths ...string) *Builder  { return b.each(paths, policy.Bind, false) }
func (b *Builder) ReadWrite(paths ...string) *Builder { return b.each(paths, policy.Bind, true) }
func (b *Builder) Dir(path string) *Builder           { b.spec.Dir = path; return b }
func (b *Builder) Network(n policy.Network) *Builder  { b.spec.Network = n; return b }
func (b *Builder) PassEnv(names ...string) *Builder {
	b.spec.Env.Pass = append(b.spec.Env.Pass, names...)
	return b
}
func (b *Builder) SetEnv(name, value string) *Builder {
	b.spec.Env.Set = append(b.spec.Env.Set, policy.Var{Name: name, Value: value})
	return b
}
func (b *Builder) Timeout(d time.Duration) *Builder   { b.spec.Timeout = d; return b }
func (b *Builder) KillGrace(d time.Duration) *Builder { b.spec.KillGrace = d; return b }
func (b *Builder) Limit(name string, value int64) *Builder {
	b.spec = b.spec.WithLimit(name, value)
	return b
}
func (b *Builder) Seccomp(filter string, deny ...string) *Builder {
	b.spec.Seccomp.Filter, b.spec.Seccomp.Deny = filter, deny
	return b
}
func (b *Builder) Commands(name string) *Builder { b.spec.Commands = name; return b }
func (b *Builder) DefineCommands(p policy.CommandRules) *Builder {
	b.spec.CommandRules = append(b.spec.CommandRules, p)
	return b
}
func (b *Builder) Backend(e policy.Backend) *Builder { b.spec.Backend = e; return b }
func (b *Builder) Explain(e policy.Explain) *Builder { b.spec.Explain = e; return b }
func (b *Builder) Degrade() *Builder                 { b.spec.Fallback = policy.Degrade; return b }
func (b *Builder) Require(names ...string) *Builder {
	b.spec = b.spec.Requiring(names...)
	return b
}
func (b *Builder) SelfTest() *Builder { b.spec.SelfTest = true; return b }
func (b *Builder) Audit(path string) *Builder {
	b.spec.Audit = append(b.spec.Audit, filepath.Clean(path))
	return b
}
func (b *Builder) Label(name, value string) *Builder {
	labels, err := policy.WithLabels(b.spec.Labels, policy.Var{Name: name, Value: value})
	b.spec.Labels, b.faults = labels, append(b.faults, err)
	return b
}
