package backend

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// checked is what the verifier is given of a lowered plan. The filters are compiled anew.
func checked(t testing.TB, p *plan.Plan, l *stages.Lowered) verify.Input {
	t.Helper()
	in, err := l.Evidence(p, stages.FDs{Report: 3, Status: 4})
	require.NoError(t, err)
	for i, f := range in.Filters { // a built-in one is compiled once
		in.Filters[i] = slices.Clone(f)
	}
	own := *p // what the program's arguments point to is not what they are compared with
	own.Mounts = slices.Clone(p.Mounts)
	for i := range own.Mounts {
		own.Mounts[i].Data = bytes.Clone(own.Mounts[i].Data)
	}
	in.Plan = &own
	return in
}

func explaining(p *plan.Plan) {
	p.Explain = &plan.Explain{Calls: []string{"openat", "execve", "mkdirat"}, Killable: true}
}

func allowing(pol *policy.Policy) {
	pol.Network, pol.Allow = policy.NetworkAllow, []string{"example.com", "udp://example.com:123"}
}

// strictPlans are plans of every backend that this process lowers for itself, in all forms.
func strictPlans(t *testing.T) map[string]*plan.Plan {
	t.Helper()
	acts := slices.DeleteFunc(slices.Clone(plan.Acts[:]), func(a plan.Act) bool { return a == plan.ActForeign && runtime.GOARCH != "amd64" })
	of := func(pol func(*policy.Policy), change func(*plan.Plan)) *plan.Plan {
		p, _ := touch(t, pol)
		if change != nil {
			change(p)
		}
		return p
	}
	plans := map[string]*plan.Plan{
		"native":                    of(nil, nil),
		"native, mount(2)":          of(nil, func(p *plan.Plan) { p.Mechanisms = plan.Mechanisms{} }),
		"native, mount(2), openat2": of(nil, func(p *plan.Plan) { p.Mechanisms = plan.Mechanisms{Openat2: true, CloseRange: true} }),
		"native, self-test":         of(nil, func(p *plan.Plan) { p.SelfTest = acts }),
		"native, cgroup": of(func(pol *policy.Policy) {
			*pol = pol.WithLimit("memory_mb", 512).WithLimit("output_bytes", 1000).WithLimit("pids", 100)
		}, nil),
		"native, explain": of(nil, explaining),
		"native, allow":   of(allowing, nil),
		"native, allow by ports": of(allowing, func(p *plan.Plan) {
			p.Allow.Step, p.Allow.TCP, p.Allow.Proxy = plan.StepPorts, []uint16{80, 443}, true
		}),
		"native, home":     of(func(pol *policy.Policy) { *pol = pol.WithLimit("home_mb", 8) }, nil),
		"native, terminal": of(nil, func(p *plan.Plan) { p.Terminal = true }),
		"native, own filter": of(func(pol *policy.Policy) {
			pol.Seccomp.Filter, pol.Seccomp.Deny = policy.SeccompOff, []string{"ptrace"}
		}, nil),
		"native, copy of a cache":           of(copyOf(t), nil),
		"native, copy of a cache, mount(2)": of(copyOf(t), func(p *plan.Plan) { p.Mechanisms = plan.Mechanisms{} }),
		"native, no filter":                 of(func(pol *policy.Policy) { pol.Seccomp.Filter = policy.SeccompOff }, nil),
		"none":                              of(func(pol *policy.Policy) { pol.Backend = policy.BackendNone }, nil),
	}
	for name, mechanisms := range map[string]plan.Mechanisms{"native": plans["native"].Mechanisms, "native, mount(2)": {}} {
		plans[name+", /dev/shm of another mode"] = of(func(pol *policy.Policy) {
			for i := range pol.FS {
				if pol.FS[i].Dest == "/dev/shm" {
					pol.FS[i].Mode = 0o700
				}
			}
		}, func(p *plan.Plan) { p.Mechanisms = mechanisms })
	}
	if probe.Quick().Can(facts.Landlock) {
		plans["landlock"] = of(func(pol *policy.Policy) { pol.Backend = policy.BackendLandlock }, nil)
		plans["landlock, explain"] = of(func(pol *policy.Policy) { pol.Backend = policy.BackendLandlock }, explaining)
		plans["landlock, self-test"] = of(func(pol *policy.Policy) { pol.Backend, pol.SelfTest = policy.BackendLandlock, true }, nil)
		plans["landlock, openat"] = of(func(pol *policy.Policy) { pol.Backend = policy.BackendLandlock }, func(p *plan.Plan) { p.Mechanisms = plan.Mechanisms{} })
	}
	return plans
}

// copyOf adds two directories of the host that are shown as copies.
func copyOf(t *testing.T) func(*policy.Policy) {
	return func(pol *policy.Policy) {
		for _, name := range []string{"one", "two"} {
			pol.FS = append(pol.FS, policy.FS{Kind: policy.Overlay, Source: t.TempDir(), Dest: pol.Home + "/.cache/" + name, Write: true, Tool: "go", Why: "tool go"})
		}
	}
}

// strictPrograms are what the verifier has to accept: the programs of strictPlans for one command, and for sessions.
func strictPrograms(t *testing.T) map[string]verify.Input {
	t.Helper()
	out := map[string]verify.Input{}
	for name, p := range strictPlans(t) {
		l, err := Preview(p)
		require.NoError(t, err, name)
		out[name] = checked(t, p, l)
		if p.Serves() {
			l, err := PreviewServer(p)
			require.NoError(t, err, name)
			out["session, "+name] = checked(t, p, l)
		}
	}
	return out
}

// remotePrograms are those that nsrun runs inside another program's sandbox.
func remotePrograms(t *testing.T) map[string]verify.Input {
	t.Helper()
	out := map[string]verify.Input{}
	for name, test := range map[string]bool{"": false, ", self-test": true, ", explain": false} {
		p, _ := touch(t, func(pol *policy.Policy) { pol.SelfTest = test })
		if name == ", explain" {
			explaining(p)
		}
		lowered, err := Preview(p)
		require.NoError(t, err)
		request, err := remoteRequest(p, lowered.Resolved)
		require.NoError(t, err)
		for by, kind := range map[verify.Runner]string{verify.Remote: "in bubblewrap", verify.Container: "in a container"} {
			remote := remotePlan(&request)
			remote.Mechanisms.CloseRange = true
			l := stages.New(remote, nil, stages.FDs{Report: 3, Status: 3, Target: request.Target}, false)
			if by == verify.Remote {
				require.NoError(t, l.ReportTests())
				t.Cleanup(l.Close)
			}
			require.NoError(t, l.Append(verify.Confinement[:], by))
			whole := *p // with its mounts, by which the rules are checked
			whole.Mechanisms, whole.LastCap = remote.Mechanisms, remote.LastCap
			done := l.Lowered()
			done.Resolved = lowered.Resolved
			own := checked(t, &whole, done)
			own.By, own.TestReport, own.Report, own.Status = by, l.TestReportFD(), 3, 3
			out[kind+name] = own
		}
	}
	return out
}

// requests are commands of sessions: with files, of which one is /dev/null, and with a terminal.
func requests(t *testing.T) map[string]verify.Input {
	t.Helper()
	out := map[string]verify.Input{}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { null.Close() })
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	for name, c := range map[string]stages.Command{"files": {Files: [3]*os.File{null, w, w}}, "terminal": {Terminal: &unix.Winsize{Row: 24, Col: 80}}} {
		for kind, pol := range map[string]func(*policy.Policy){"": nil, ", landlock": func(pol *policy.Policy) { pol.Backend = policy.BackendLandlock }} {
			p, _ := touch(t, pol)
			c.Args, c.Env, c.Dir = p.Command, p.Env, p.Dir
			request, err := stages.LowerRequest(p, c)
			require.NoError(t, err)
			require.NoError(t, request.Verified())
			in, err := request.Evidence()
			require.NoError(t, err)
			out["request, "+name+kind] = in
		}
	}
	return out
}

// TestARequestThatBreaksAClaimIsRefused: each call of a session's request in turn is made to fail for good.
func TestARequestThatBreaksAClaimIsRefused(t *testing.T) {
	p, _ := touch(t, nil)
	request, err := stages.LowerRequest(p, stages.Command{Args: p.Command, Env: p.Env, Dir: p.Dir, Terminal: &unix.Winsize{Row: 24, Col: 80}})
	require.NoError(t, err)
	require.NoError(t, request.Verified(), "positive control")
	for i := range request.Program.Len() {
		if request.Program.IsFail(i) {
			continue
		}
		restore := request.Program.Inject(i, unix.ENOTUNIQ)
		var failed *Error
		require.ErrorAs(t, request.Verified(), &failed, "call %d, %s", i, request.Program.Describe(i))
		require.Equal(t, "verify", failed.Stage)
		restore()
	}
}

// TestStrictProgramsAreAccepted has the verifier judge real programs, and as a control the same ones with one call that is injected to fail.
func TestStrictProgramsAreAccepted(t *testing.T) {
	programs := strictPrograms(t)
	maps.Copy(programs, remotePrograms(t))
	maps.Copy(programs, requests(t))
	for name, in := range programs {
		t.Run(name, func(t *testing.T) {
			if v := verify.Check(in); v != nil {
				t.Errorf("%s\n%s", v, in.Program)
			}
			for i := range in.Program.Len() {
				if k := in.Program.View(i).Kind(); k == sys.KindServe || k == sys.KindFail {
					continue
				}
				restore := in.Program.Inject(i, unix.ENOTUNIQ)
				require.NotNil(t, verify.Check(in), "call %d, %s", i, in.Program.Describe(i))
				restore()
			}
		})
	}
}

// TestAProgramThatBreaksAClaimDoesNotRun: the one call that is changed is one that tolerates its error, so without the check the command runs.
func TestAProgramThatBreaksAClaimDoesNotRun(t *testing.T) {
	for _, verified := range []bool{false, true} {
		p, marker := touch(t, nil)
		opts := Options{Verify: verified}
		opts.seam.lower = func(f stages.FDs) (*stages.Lowered, error) {
			host := hostFor(p)
			defer host.Close()
			l, err := stages.Lower(p, host, f, true)
			if err == nil {
				for i := range l.Program.Len() {
					if v := l.Program.View(i); v.Kind() == sys.KindCall && v.NR() == unix.SYS_KEYCTL {
						l.Program.Inject(i, unix.EPERM)
					}
				}
			}
			return l, err
		}
		_, err := Run(p, opts)
		if !verified {
			require.NoError(t, err, "positive control")
			require.FileExists(t, marker)
			continue
		}
		var failed *Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "verify", failed.Stage)
		require.NoFileExists(t, marker)
	}
}

// TestARuleThatIncludesWhatIsCoveredIsRefused lowers a plan of root's with one rule for all of /etc, as if it had none by entry.
func TestARuleThatIncludesWhatIsCoveredIsRefused(t *testing.T) {
	p, _ := touch(t, nil)
	if os.Geteuid() != 0 || p.Landlock == nil {
		t.Skip("only a sandbox of root's has rules by entry, and only with Landlock")
	}
	require.Equal(t, []string{"/etc"}, p.Landlock.ByEntry)
	whole, rules := *p, *p.Landlock
	rules.ByEntry = nil
	whole.Landlock = &rules
	l, err := Preview(&whole)
	require.NoError(t, err)
	require.Nil(t, verify.Check(checked(t, &whole, l)), "positive control")
	broken := verify.Check(checked(t, p, l))
	require.NotNil(t, broken)
	require.Equal(t, verify.Rules, broken.Claim)
	require.Contains(t, fmt.Sprint(broken), "/etc is granted rx, though /etc/")
}

func BenchmarkVerify(b *testing.B) {
	p, _ := touch(b, nil)
	l, err := Preview(p)
	require.NoError(b, err)
	for b.Loop() {
		if err := l.Verified(p, stages.FDs{Report: 3, Status: 4}); err != nil {
			b.Fatal(err)
		}
	}
}
