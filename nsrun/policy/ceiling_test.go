package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnder(t *testing.T) {
	home := Default("/home/me")
	for _, c := range []struct {
		name  string
		grant []FS
		c     Ceiling
		want  []string
		note  string
	}{
		{"nothing is permitted", []FS{bind("/a", false)}, Ceiling{}, nil, "/a (test) is beyond the ceiling; it is not shown"},
		{"permitted", []FS{bind("/a/b", false)}, Ceiling{FSRead: []string{"/a"}}, []string{"/a/b in /a"}, ""},
		{"written", []FS{bind("/a/b", true)}, Ceiling{FSWrite: []string{"/a"}}, []string{"/a/b rw in /a"}, ""},
		{"what may be written may be read", []FS{bind("/a", false)}, Ceiling{FSWrite: []string{"/a"}}, []string{"/a in /a"}, ""},
		{"only read", []FS{bind("/a", true)}, Ceiling{FSRead: []string{"/a"}}, []string{"/a in /a"}, "/a (test) is read-only under the ceiling"},
		{"MF02 beside", []FS{bind("/ab", false)}, Ceiling{FSRead: []string{"/a"}}, nil, "not shown"},
		{"above", []FS{bind("/a", false)}, Ceiling{FSRead: []string{"/a/b"}}, nil, "not shown"},
		{"everything", []FS{bind("/a", true)}, Ceiling{FSWrite: []string{"/"}}, []string{"/a rw in /"}, ""},
		{"several roots", []FS{bind("/a/b", false)}, Ceiling{FSRead: []string{"/a/b", "/a", "/c"}}, []string{"/a/b in /a /a/b"}, ""},
		{"sockets", []FS{{Kind: Socket, Source: "/run/a", Dest: "/run/a"}, {Kind: Socket, Source: "/run/b", Dest: "/run/b"}}, Ceiling{Sockets: []string{"/run/a"}, FSWrite: []string{"/run/b"}},
			[]string{"/run/a in /run/a"}, "/run/b (test) is beyond"},
		{"own bounds stay", []FS{{Kind: Bind, Source: "/a/b", Dest: "/a/b", Within: []string{"/a/b/c"}}}, Ceiling{FSRead: []string{"/a"}}, []string{"/a/b in /a/b/c"}, ""},
		{"what hid something hides it still", []FS{bind("/a", false), {Kind: Bind, Source: "/x", Dest: "/a/secret"}}, Ceiling{FSRead: []string{"/a"}}, []string{"/a in /a", "tmpfs /a/secret"}, "/x (test) is beyond"},
		{"a preset's own place", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Tool: "git"}}, Ceiling{Tools: []string{"git"}}, []string{"/a"}, ""},
		{"found, not permitted", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Tool: "git", Found: true}}, Ceiling{Tools: []string{"git"}}, nil, "/a (test) is beyond the ceiling; it is not shown"},
		{"found, permitted", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Tool: "git", Found: true}}, Ceiling{Tools: []string{"git"}, FSRead: []string{"/"}}, []string{"/a in /"}, ""},
		{"found, only read", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Write: true, Tool: "git", Found: true}}, Ceiling{Tools: []string{"git"}, FSRead: []string{"/"}}, []string{"/a in /"}, "/a (test) is read-only"},
		{"found, written", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Write: true, Tool: "git", Found: true}}, Ceiling{Tools: []string{"git"}, FSWrite: []string{"/a"}}, []string{"/a rw in /a"}, ""},
		{"no host, no cut", []FS{{Kind: Tmpfs, Dest: "/scratch", Write: true}, {Kind: File, Dest: "/x", Data: []byte("x")}}, Ceiling{}, []string{"tmpfs /scratch rw", "file /x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := home
			for _, e := range c.grant {
				e.Why = "test"
				p.FS = append(p.FS[:len(p.FS):len(p.FS)], e)
			}
			got, notes := p.under(c.c)
			var shown []string
			for _, e := range got.FS[len(home.FS):] {
				s := e.Dest
				if e.Kind != Bind && e.Kind != Socket {
					s = string(e.Kind) + " " + s
				}
				if e.Write {
					s += " rw"
				}
				if e.Within != nil {
					s += " in " + strings.Join(e.Within, " ")
				}
				shown = append(shown, s)
			}
			assert.Equal(t, c.want, shown)
			assert.Equal(t, home.FS, got.FS[:len(home.FS)], "the system stays")
			text := ""
			for _, n := range notes {
				text += n.String() + "\n"
			}
			assert.Contains(t, text, c.note)
			assert.Equal(t, c.note == "", len(notes) == 0, text)
		})
	}
}

// TestAWeightIsNotRaised: the kernel goes by 100 where nobody sets one, and the lower weight is the stricter one.
func TestAWeightIsNotRaised(t *testing.T) {
	for most, want := range map[int64][]Limit{500: nil, 100: nil, 99: {{"cpu_weight", 99}}} {
		cut, notes := Policy{}.under(Ceiling{Limits: []Limit{{"cpu_weight", most}}})
		assert.Equal(t, want, cut.Limits)
		assert.Empty(t, notes)
	}
	cut, notes := Policy{Limits: []Limit{{"cpu_weight", 700}}}.under(Ceiling{Limits: []Limit{{"cpu_weight", 500}}})
	assert.Equal(t, []Limit{{"cpu_weight", 500}}, cut.Limits)
	assert.Len(t, notes, 1)
}

func TestUnderCutsEverythingElse(t *testing.T) {
	wide := Policy{Network: NetworkHost, Env: Env{Pass: []string{"A", "CI_X", "LANG"}}, Limits: []Limit{{"pids", 100}, {"core", 0}}, Timeout: time.Hour, KillGrace: time.Minute,
		Seccomp: Seccomp{Filter: SeccompOff, Deny: []string{"ptrace"}, Raw: make([]byte, 8)}, NoLandlock: true, Fallback: Degrade, Backend: BackendBwrap, HostEtc: true, Dir: "/w", FS: []FS{bind("/w", true)}}
	got, notes := wide.under(Ceiling{})
	assert.Equal(t, Policy{Network: NetworkNone, Env: Env{Pass: []string{"LANG"}}, Limits: wide.Limits, Timeout: time.Hour, KillGrace: time.Minute,
		Seccomp: Seccomp{Filter: "default", Deny: []string{"ptrace"}, Raw: make([]byte, 8)}, Fallback: Strict, Backend: BackendAuto, Dir: "/"}, got)
	assert.Len(t, notes, 10, "each cut is said: fs, dir, network, two names, seccomp, landlock, fallback, backend, etc")

	all := Ceiling{FSWrite: []string{"/"}, Network: NetworkHost, PassEnv: []string{"CI_*", "A"}, Limits: []Limit{{"pids", 100}}, Timeout: time.Hour, KillGrace: time.Minute,
		Seccomp: []string{"default", SeccompOff}, NoLandlock: true, Fallback: Degrade, HostEtc: true}
	got, notes = wide.under(all)
	wide.FS[0].Within, wide.MaxProcessTime = []string{"/"}, time.Hour // of processes, which have no time of their own
	assert.Equal(t, wide, got, "a ceiling that names everything cuts nothing")
	assert.Empty(t, notes)

	got, _ = wide.under(Ceiling{Limits: []Limit{{"pids", 10}, {"memory_mb", 5}}, Timeout: time.Second, Seccomp: []string{"compute"}})
	assert.ElementsMatch(t, []Limit{{"pids", 10}, {"memory_mb", 5}, {"core", 0}}, got.Limits, "larger ones are cut, missing ones set")
	assert.Equal(t, time.Second, got.Timeout)
	assert.Equal(t, DefaultKillGrace, got.KillGrace, "a long grace would outlive the timeout")
	assert.Equal(t, "compute", got.Seccomp.Filter)
	got, notes = Policy{}.under(Ceiling{Timeout: time.Second})
	assert.Equal(t, time.Second, got.Timeout, "no timeout is the longest one")
	require.NotEmpty(t, notes)
	assert.Equal(t, "no timeout is beyond the ceiling; it is 1s", notes[0].Loss)
	_, notes = Policy{Timeout: time.Hour}.under(Ceiling{Timeout: time.Second})
	require.NotEmpty(t, notes)
	assert.Equal(t, "1h0m0s is beyond the ceiling; it is 1s", notes[0].Loss)
	got, _ = Policy{Env: Env{All: true, Pass: []string{"Q"}}}.under(Ceiling{PassEnv: []string{"A", "CI_*"}})
	assert.Equal(t, Env{Pass: []string{"A"}}, got.Env)
	got, _ = Policy{Env: Env{All: true}}.under(Ceiling{PassEnv: []string{"*"}})
	assert.True(t, got.Env.All)
}

// view is what a place inside shows of the host.
type view struct {
	host          string
	write, system bool
}

func (p Policy) look(at string) (v view, shown bool) {
	for _, e := range slices.Backward(p.FS) {
		if Inside(at, e.Dest) {
			return view{e.Source + strings.TrimPrefix(at, e.Dest), e.Write || e.Kind == Socket, e.System}, e.Kind == Bind || e.Kind == Socket
		}
	}
	return view{}, false
}

var fuzzPlaces = []string{"/a", "/a/b", "/a/b/c", "/d", "/d/e", "/usr", "/usr/x", "/a/b/c/z", "/d/e/f", "/tmp", "/tmp/x", "/q"}

// noMore checks that p shows nothing at any place that q does not.
func noMore(t *testing.T, p, q Policy, what string) {
	t.Helper()
	for _, at := range fuzzPlaces {
		a, shownA := p.look(at)
		b, shownB := q.look(at)
		if shownA {
			require.Truef(t, shownB && a.host == b.host && (b.write || !a.write), "%s: %s shows %v, and before %v", what, at, a, b)
		}
	}
	require.Truef(t, p.Network.Mode() == NetworkNone || q.Network.Mode() == NetworkHost, "%s: network", what)
	for _, name := range p.Env.Pass {
		require.Truef(t, q.Env.All || BaseName(name) || slices.Contains(q.Env.Pass, name), "%s: %s", what, name)
	}
}

func weaker(p, q Policy) bool {
	for _, at := range fuzzPlaces {
		a, shownA := p.look(at)
		b, shownB := q.look(at)
		if shownA && !(shownB && a.host == b.host && (b.write || !a.write)) {
			return false
		}
	}
	return true
}

// subset reports whether each entry of p is one of q.
func subset(p, q Policy) bool {
	for _, e := range p.FS {
		if !slices.ContainsFunc(q.FS, func(o FS) bool { return e.Dest == o.Dest && same(e, o) && e.Write == o.Write }) {
			return false
		}
	}
	return true
}

// fuzzed makes a policy and a ceiling of bytes.
func fuzzed(data []byte) (entries []FS, p Policy, c Ceiling) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	place := func() string { return fuzzPlaces[next()%len(fuzzPlaces)] }
	for range next() % 8 {
		e := FS{Kind: []Kind{Bind, Bind, Bind, Tmpfs, Socket}[next()%5], Source: place(), Write: next()%2 == 0, Why: "fuzz"}
		e.Dest = e.Source
		if next()%4 == 0 {
			e.Dest = place()
		}
		if e.Kind == Tmpfs {
			e.Source = ""
		}
		entries = append(entries, e)
	}
	for range next() % 4 {
		c.FSRead = append(c.FSRead, place())
	}
	for range next() % 4 {
		c.FSWrite = append(c.FSWrite, place())
	}
	p = Policy{Network: []Network{"", NetworkHost}[next()%2], Env: Env{All: next()%4 == 0, Pass: []string{"A", "B"}[:next()%3]}, Dir: place()}
	c.Network = []Network{"", NetworkHost}[next()%2]
	c.PassEnv = [][]string{nil, {"A"}, {"B*"}, {"*"}}[next()%4]
	c.Limits = []Limit{{"pids", int64(next() + 1)}}
	p.Limits = []Limit{{"pids", int64(next() + 1)}}
	p.Timeout, c.Timeout = time.Duration(next()), time.Duration(next())
	p.KillGrace, c.KillGrace = time.Duration(next()), time.Duration(next())
	return entries, p, c
}

func withEntries(p Policy, entries []FS) Policy {
	p.FS, _ = arrange(append(slices.Clone(Default("/home/me").FS), entries...))
	return p
}

func FuzzCeiling(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 1, 0, 3, 0, 0, 1, 1, 0, 0, 0})
	f.Add([]byte{1, 0, 5, 0, 1, 0, 0, 1, 1, 1, 3, 1, 9, 9, 9, 9})
	f.Add([]byte{3, 0, 0, 0, 1, 0, 1, 1, 1, 0, 3, 0, 0, 1, 2, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, p, c := fuzzed(data)
		p = withEntries(p, entries)
		q, notes := p.under(c)
		noMore(t, q, p, "no more than the policy")
		for _, e := range q.FS {
			if e.System || e.Kind != Bind {
				continue
			}
			roots := slices.Clone(c.FSWrite)
			if !e.Write {
				roots = append(roots, c.FSRead...)
			}
			require.True(t, slices.ContainsFunc(roots, func(r string) bool { return Inside(e.Source, r) }), "no more than the ceiling")
			require.NotEmpty(t, e.Within)
			for _, in := range e.Within {
				require.True(t, slices.ContainsFunc(roots, func(r string) bool { return Inside(in, r) }), "and kept there")
			}
		}
		v, _ := q.Limit("pids")
		require.LessOrEqual(t, v, c.Limits[0].Value)
		require.True(t, c.Timeout == 0 || q.Timeout > 0 && q.Timeout <= c.Timeout)
		require.NoError(t, q.Validate())
		again, more := q.under(c)
		require.Equal(t, q, again, "idempotent")
		require.Empty(t, more)
		if len(notes) == 0 {
			require.True(t, weaker(p, q), "what is cut is said")
		}
		for i := range entries {
			less := withEntries(p, slices.Delete(slices.Clone(entries), i, i+1))
			if subset(less, p) && weaker(less, p) { // it was a grant: it hid nothing, and stood in for nothing
				under, _ := less.under(c)
				noMore(t, under, q, "removing a grant adds nothing")
			}
		}
		for _, roots := range []*[]string{&c.FSRead, &c.FSWrite} {
			if len(*roots) > 0 {
				*roots = (*roots)[1:]
				under, _ := p.under(c)
				noMore(t, under, q, "permitting less adds nothing")
			}
		}
	})
}

func TestAWorkingDirectoryThatWasCutIsTheRoot(t *testing.T) {
	for _, dir := range []string{"/tmp/x", "/var/lib/x", "/home/me/x"} {
		p := Default("/home/me").Grant(dir, false, "working directory")
		p.Dir = dir
		p.FS, _ = arrange(p.FS)
		cut, _ := p.under(Ceiling{})
		if cut.Dir != "/" {
			t.Errorf("%s was cut, and the working directory is still %s", dir, cut.Dir)
		}
		kept, _ := p.under(Ceiling{FSRead: []string{dir}})
		if kept.Dir != dir {
			t.Errorf("%s was kept, and the working directory is %s", dir, kept.Dir)
		}
	}
}

func TestCeilingOnBackends(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Policy
		c    Ceiling
		want Policy
		note string
	}{
		{"none", Policy{Backend: BackendNone}, Ceiling{}, Policy{Backend: BackendAuto}, "none is beyond the ceiling; there is a sandbox"},
		{"none, degrade is not enough", Policy{Backend: BackendNone}, Ceiling{Fallback: Degrade}, Policy{Backend: BackendAuto}, "none is beyond"},
		{"none permitted", Policy{Backend: BackendNone}, Ceiling{Isolation: Subprocess}, Policy{Backend: BackendNone}, ""},
		{"landlock", Policy{Backend: BackendLandlock}, Ceiling{}, Policy{Backend: BackendAuto}, "landlock is beyond the ceiling"},
		{"docker", Policy{Backend: BackendDocker}, Ceiling{Fallback: Degrade}, Policy{Backend: BackendDocker}, ""},
		{"permissive", Policy{Isolation: Permissive}, Ceiling{}, Policy{Isolation: Container}, `permissive is beyond the ceiling; it is container (the operator's ceiling would permit it by "isolation": "permissive", "pass_env": ["*"] and no limits)`},
		{"subprocess", Policy{Isolation: Subprocess}, Ceiling{}, Policy{Isolation: Container}, `the operator's ceiling would permit it by "isolation": "subprocess")`},
		{"permissive, but limits are to hold", Policy{Isolation: Permissive}, Ceiling{Isolation: Permissive, PassEnv: []string{"*"}, Limits: []Limit{{"core", 0}}}, Policy{Isolation: Subprocess}, "it is subprocess"},
		{"permissive, but variables are cut", Policy{Isolation: Permissive}, Ceiling{Isolation: Permissive}, Policy{Isolation: Subprocess}, "it is subprocess"},
		{"permissive", Policy{Isolation: Permissive}, Ceiling{Isolation: Permissive, PassEnv: []string{"*"}}, Policy{Isolation: Permissive}, ""},
		{"permissive to subprocess", Policy{Isolation: Permissive}, Ceiling{Isolation: Subprocess}, Policy{Isolation: Subprocess}, "it is subprocess"},
		{"closer than it must be", Policy{Isolation: Subprocess}, Ceiling{Isolation: Permissive}, Policy{Isolation: Subprocess}, ""},
		{"require adds", Policy{Require: []string{"view"}}, Ceiling{Require: []string{"files", "view"}}, Policy{Require: []string{"view", "files"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.p.Require)
			got, notes := c.p.under(c.c)
			assert.Equal(t, []any{c.want.Backend, c.want.Isolation, c.want.Require}, []any{got.Backend, got.Isolation, got.Require})
			text := ""
			for _, n := range notes {
				text += n.String()
			}
			assert.Contains(t, text, c.note)
			if c.note == "" {
				assert.Empty(t, text)
			}
			assert.Equal(t, before, c.p.Require, "the policy itself is not changed")
		})
	}
}

func TestIsolationFaults(t *testing.T) {
	for want, p := range map[string]Policy{
		`isolation: "jail" is unknown; use container, subprocess or permissive`: {Isolation: "jail"},
		"isolation: subprocess is no sandbox, and the backend docker is one":    {Isolation: Subprocess, Backend: BackendDocker},
		`require[1]: "kill" is not a guarantee; they are sandbox, files, view`:  {Require: []string{"files", "kill"}},
		"require[1]: files is given twice":                                      {Require: []string{"files", "files"}},
	} {
		assert.ErrorContains(t, p.Validate(), want)
	}
	assert.NoError(t, Policy{Isolation: Permissive, Backend: BackendNone, Require: []string{"descriptors"}}.Validate())
}

func TestACeilingRaisesProtection(t *testing.T) {
	for _, c := range []struct {
		asked, least, want Protect
		note               bool
	}{
		{"", "", "", false}, {ProtectOff, "", ProtectReport, true}, {ProtectOff, ProtectOff, ProtectOff, false}, {"", ProtectRevert, ProtectRevert, true},
		{ProtectStrict, ProtectRevert, ProtectStrict, false}, {ProtectRevert, ProtectStrict, ProtectStrict, true}, {ProtectStrict, "", ProtectStrict, false},
	} {
		p := Default("/home/me")
		p.Protect = c.asked
		got, notes := p.under(Ceiling{Protect: c.least})
		assert.Equal(t, c.want, got.Protect, "%+v", c)
		assert.Len(t, notes, map[bool]int{true: 1}[c.note], "%+v", c)
	}
}
