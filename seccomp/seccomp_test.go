package seccomp

import (
	stdsha "crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumbersAndNamesAreInverse(t *testing.T) {
	for _, arch := range Arches() {
		table, order := arch.rows()
		require.Equal(t, len(table), len(order))
		for _, r := range table {
			nr, ok := arch.Number(r.name)
			require.True(t, ok, r.name)
			name, ok := arch.Name(nr)
			require.True(t, ok, r.name)
			assert.Equal(t, r.name, name)
		}
		for _, none := range []string{"", "a", "zzz", "READ", "read "} {
			_, ok := arch.Number(none)
			assert.False(t, ok, none)
		}
		_, ok := arch.Name(100000)
		assert.False(t, ok)
	}
	for _, row := range []struct {
		arch Arch
		name string
		nr   uint32
	}{{AMD64, "read", 0}, {AMD64, "clone", 56}, {AMD64, "newfstatat", 262}, {AMD64, "listns", 470},
		{ARM64, "io_setup", 0}, {ARM64, "clone", 220}, {ARM64, "newfstatat", 79}, {ARM64, "open_tree_attr", 467}} {
		nr, ok := row.arch.Number(row.name)
		assert.True(t, ok && nr == row.nr, "%s on %s is %d, not %d", row.name, row.arch, row.nr, nr)
	}
	_, ok := ARM64.Number("open")
	assert.False(t, ok, "arm64 has no open")
}

func TestLookupNamesTheChoices(t *testing.T) {
	_, err := Lookup("docker")
	require.EqualError(t, err, `seccomp filter "docker": not one of default, compute, network, build`)
	_, err = Builtin("docker", AMD64)
	require.Error(t, err)
	_, err = Builtin("default", 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = Compile(defaultProfile, 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestCompileReportsEveryFault(t *testing.T) {
	_, err := Compile(Profile{Name: "p", Default: enosys, Base: &Profile{Name: "b", Default: Allow}, Rules: []Rule{
		{Calls: "read raed", Action: Allow},
		{Calls: "read", Action: Allow},
		{Calls: "write", Cases: []Case{{}, {If: []Cond{{Arg: 6, In: []uint32{1}}, {}}}}},
	}}, AMD64)
	require.Error(t, err)
	for _, fault := range []string{"default differs", `"raed": no such call; did you mean read?`, "read has two rules",
		"a case without a condition", "argument 6", "a condition without values"} {
		assert.ErrorContains(t, err, fault)
	}
}

func TestZeroProfileKills(t *testing.T) {
	f, err := Compile(Profile{}, ARM64)
	require.NoError(t, err)
	assert.Equal(t, actionKillThread, run(f, Data{NR: 64, Arch: ARM64.Audit()}))
}

func TestLongJumps(t *testing.T) {
	// Every other call depends on an argument of its own: blocks far apart, returns out of reach.
	p := Profile{Name: "long", Default: enosys}
	table, _ := AMD64.rows()
	for i, r := range table {
		rule := Rule{Calls: r.name, Action: Errno(uint16(i))}
		if i%2 == 0 {
			rule.Cases = []Case{{If: []Cond{{Arg: uint8(i % 6), Mask: uint32(i) | 0xff00, In: []uint32{uint32(i), 0x100, 0x200}}}, Action: Allow}}
		}
		p.Rules = append(p.Rules, rule)
	}
	f, err := Compile(p, AMD64)
	require.NoError(t, err)
	require.Greater(t, len(f), 800)
	require.NoError(t, f.Check())
	reachable(t, &p, f, AMD64)
}

func TestDenyTakesAway(t *testing.T) {
	for _, arch := range Arches() {
		base, err := Builtin("default", arch)
		require.NoError(t, err)
		deny, err := Deny([]string{"memfd_create", "open", "memfd_create", "io_uring_setup"}, arch)
		require.NoError(t, err)
		nr, _ := arch.Number("memfd_create")
		for _, stack := range [][]Filter{{base, deny}, {deny, base}} {
			got, err := Decide(Data{NR: nr, Arch: arch.Audit()}, stack...)
			require.NoError(t, err)
			assert.Equal(t, eperm, got)
			nr, _ := arch.Number("read")
			got, err = Decide(Data{NR: nr, Arch: arch.Audit()}, stack...)
			require.NoError(t, err)
			assert.Equal(t, Allow, got)
			got, err = Decide(Data{NR: nr, Arch: 0x40000003}, stack...)
			require.NoError(t, err)
			assert.Equal(t, Kill, got)
		}
		assert.Less(t, len(deny), 20, "a small filter")
	}
	got, err := Decide(Data{})
	require.NoError(t, err)
	assert.Equal(t, Allow, got, "without filters")
}

// SC37: whatever is stacked on a profile, no call that it refuses becomes possible.
func TestDenyCannotLoosen(t *testing.T) {
	var all []string
	table, _ := AMD64.rows()
	for _, r := range table {
		if !strings.Contains(" "+startup+" ", " "+r.name+" ") {
			all = append(all, r.name)
		}
	}
	for range 50 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		deny, err := Deny(all[:rand.IntN(len(all))], AMD64)
		require.NoError(t, err)
		base, err := Builtin("default", AMD64)
		require.NoError(t, err)
		for nr := range uint32(600) {
			d := Data{NR: nr, Arch: AMD64.Audit()}
			got, err := Decide(d, base, deny)
			require.NoError(t, err)
			if got == Allow {
				require.Equal(t, Allow, run(base, d))
			}
		}
	}
}

func TestDenyNamesEveryMistake(t *testing.T) {
	_, err := Deny([]string{"memfd_creat", "xyzzyxyzzy", "", "read write", "execve", "clone"}, AMD64)
	require.EqualError(t, err, `system call "memfd_creat": no such call; did you mean memfd_create?
system call "xyzzyxyzzy": no such call
system call "": no such call
system call "read write": no such call
system call execve: cannot be denied, starting a program needs it`)
	f, err := Deny(nil, AMD64)
	require.NoError(t, err)
	assert.Equal(t, Allow, run(f, Data{NR: 1, Arch: AMD64.Audit()}))
}

func TestDescribeCountsAndTells(t *testing.T) {
	p, err := Lookup("default")
	require.NoError(t, err)
	text, err := p.Describe(ARM64)
	require.NoError(t, err)
	assert.Regexp(t, `^allow \d+ calls, \d+ more by their arguments; \d+ errno EPERM; \d+ errno ENOSYS; others errno ENOSYS; `+
		`foreign architectures kill process\n`, text)
	assert.Contains(t, text, "ioctl: errno EPERM if arg1 in {0x540c, 0x5412, 0x541c, 0x5423}; otherwise allow\n")
	assert.Contains(t, text, "\nerrno EPERM: ")
	_, err = Profile{Rules: []Rule{{Calls: "x"}}}.Describe(AMD64)
	require.Error(t, err)
}

func TestActionsInWords(t *testing.T) {
	for action, want := range map[Action]string{Allow: "allow", Kill: "kill process", 0: "kill thread", Errno(5): "errno 5", eperm: "errno EPERM",
		0x30000: "trap", 0x7fc00000: "notify", 0x7ff00002: "trace 2", 0x7ffc0000: "log", 0x12340000: "unknown action 0x12340000 (kills the process)"} {
		assert.Equal(t, want, action.String())
	}
}

func TestBuiltinHashIsSHA256OfBytes(t *testing.T) {
	for _, name := range Names() {
		for _, arch := range Arches() {
			f, err := Builtin(name, arch)
			require.NoError(t, err)
			sum := stdsha.Sum256(f.Bytes())
			assert.Equal(t, hex.EncodeToString(sum[:]), BuiltinHash(name, arch))
		}
	}
	assert.Empty(t, BuiltinHash("no such", AMD64))
}

func TestListing(t *testing.T) {
	f, err := Deny([]string{"ptrace"}, ARM64)
	require.NoError(t, err)
	assert.Equal(t, `   0  A = arch
   1  if A == 0xc00000b7 goto 3 else 2
   2  return kill process
   3  A = nr
   4  if A == 0x75 goto 5 else 6
   5  return errno EPERM
   6  return allow
`, f.String())
	odd := Filter{{opLoad, 0, 0, 8}, {opLoad, 0, 0, 24}, {opLoad, 0, 0, 28}, {opAnd, 0, 0, 7}, {opJump, 0, 0, 1}, {opJgt, 0, 1, 2},
		{opJset, 1, 0, 4}, {opJge, 0, 0, 4}, {opTax, 0, 0, 0}}
	for _, want := range []string{"data[8]", "low(arg1)", "high(arg1)", "A &= 0x7", "goto 6", "A > 0x2 goto 6 else 7", "A & 0x4", "A >= 0x4", "code 0x07"} {
		assert.Contains(t, odd.String(), want)
	}
}
