package seccomp

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatch: for every number, and for arguments that matter, the joined filter asks where the filters refuse with an errno or where an allowed
// call is watched, and says what they say otherwise.
func TestWatch(t *testing.T) {
	watched := []string{"openat", "execve", "connect", "mkdir", "unlinkat"}
	foreign := map[Arch]uint32{AMD64: 0x40000003, ARM64: AMD64.Audit()} // i386; of another processor
	for _, a := range Arches() {
		some := sampled(t, a, watched)
		for _, name := range Names() {
			builtin, err := Builtin(name, a)
			require.NoError(t, err)
			refuse, err := Refuse([]string{RefuseInet, RefuseUnix, RefuseSessions, RefuseMemfdExec}, a)
			require.NoError(t, err)
			deny, err := Deny([]string{"openat", "getpid"}, a)
			require.NoError(t, err)
			nofollow := map[Arch]uint64{AMD64: 0x20000, ARM64: 0x8000}[a]
			const cwd = 0xffffff9c
			walk := func(args [6]uint64) bool { // one that reads a tree
				return uint32(args[0]) != cwd && args[2]&0o103 == 0 && args[2]&nofollow != 0
			}
			for i, filters := range [][]Filter{nil, {builtin}, {builtin, refuse}, {builtin, deny}, {builtin, refuse, deny}, {refuse}, {deny}} {
				walks := i%2 == 0
				joined, err := Watch(filters, watched, walks, a)
				require.NoError(t, err)
				decider, err := NewDecider(filters...) // which remembers
				require.NoError(t, err)
				asks := 0
				for _, nr := range some {
					for _, args := range [][6]uint64{{}, {1, 1}, {2, 1}, {16, 3}, {40, 1}, {1, 2}, {0x10000000}, {0, 8}, {1, 8}, {^uint64(0), ^uint64(0), ^uint64(0)}, {0, 0, 0o4755, 0o6755},
						{3, 0, nofollow}, {3, 0, nofollow | 0x800}, {3, 0, nofollow | 1}, {3, 0, nofollow | 2}, {3, 0, nofollow | 0o100}, {3, 0, 0}, {cwd, 0, nofollow}, {^uint64(99), 0, nofollow}} {
						for _, arch := range []uint32{a.Audit(), foreign[a]} {
							d := Data{NR: nr, Arch: arch, Args: args}
							want, err := Decide(d, filters...)
							require.NoError(t, err)
							again, err := decider.Decide(d)
							require.NoError(t, err)
							require.Equal(t, want, again)
							n, _ := a.Name(nr)
							_, refused := want.Errno()
							if refused || want == Allow && arch == a.Audit() && contains(watched, n) && (walks || n != "openat" || !walk(args)) {
								want = actionNotify
								asks++
							}
							got, _, err := interpret(joined, d)
							require.NoError(t, err)
							require.Equal(t, want, got, "%s %s %v %d of %d filters", name, n, args, nr, len(filters))
						}
					}
				}
				assert.NotZero(t, asks)
			}
		}
	}
}

func numbers() (all []uint32) {
	for nr := uint32(0); nr < 600; nr++ {
		all = append(all, nr)
	}
	return all
}

// sampled are numbers of calls, of which the fast tier takes some: each that is watched, and others.
func sampled(t *testing.T, a Arch, watched []string) (some []uint32) {
	all := append(numbers(), x32Bit, x32Bit+1, x32Over, ^uint32(0))
	class := func(i int) string {
		name, _ := a.Name(all[i])
		if !contains(watched, name) {
			return ""
		}
		return name
	}
	for _, i := range testenv.Sample(t, len(all), class) {
		some = append(some, all[i])
	}
	return some
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// TestWatchRefuses: what could return anything cannot be joined, and a call that does not exist cannot be watched.
func TestWatchRefuses(t *testing.T) {
	_, err := Watch([]Filter{{{opLoadImm, 0, 0, 3}, retA}}, []string{"openat"}, true, AMD64)
	assert.ErrorContains(t, err, "not compiled here")
	_, err = Watch(nil, []string{"opneat"}, true, AMD64)
	assert.ErrorContains(t, err, "did you mean openat?")
}
