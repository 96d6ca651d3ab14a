//go:build libseccomp && cgo && linux

package seccomp

import (
	"fmt"
	"math/bits"
	"os"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The shipped filters come from Compile. Here libseccomp, a second compiler that shares no line with it, makes filters from the same
// tables, and both must give the same verdict for every number from 0 to 1023 and every edge argument.
//
// libseccomp's rules are an unordered set of conjunctions, with one comparison for each argument, and its NE and its ranges compare all 64
// bits. Masked equality is what is left, and it is enough: a set of 32-bit values, or its complement, is a union of cubes (some
// bits fixed, some free), and an ordered list of cases is a union of disjoint boxes, one cube for each argument.

type cube struct{ mask, value uint32 }

type box [6]cube

// meet returns what a and b have in common.
func meet(a, b cube) (cube, bool) {
	common := a.mask & b.mask
	return cube{a.mask | b.mask, a.value | b.value}, a.value&common == b.value&common
}

// cubes returns disjoint cubes that together are the values for which c holds, or for which it does not.
func cubes(c Cond, holds bool) []cube {
	mask := c.Mask
	if mask == 0 {
		mask = ^uint32(0)
	}
	if holds != c.Not {
		var out []cube
		for _, v := range c.In {
			if v&^mask == 0 {
				out = append(out, cube{mask, v})
			}
		}
		return out
	}
	return avoid(cube{}, mask, c.In)
}

// avoid splits at, bit by bit of mask from the top, into the cubes that hold none of values.
func avoid(at cube, mask uint32, values []uint32) []cube {
	var inside []uint32
	for _, v := range values {
		if v&at.mask == at.value {
			inside = append(inside, v)
		}
	}
	if len(inside) == 0 {
		return []cube{at}
	}
	rest := mask &^ at.mask
	if rest == 0 {
		return nil
	}
	bit := uint32(1) << (31 - bits.LeadingZeros32(rest))
	return append(avoid(cube{at.mask | bit, at.value}, mask, inside), avoid(cube{at.mask | bit, at.value | bit}, mask, inside)...)
}

func within(bs []box, c Cond, holds bool) []box {
	var out []box
	for _, b := range bs {
		for _, q := range cubes(c, holds) {
			if m, ok := meet(b[c.Arg], q); ok {
				n := b
				n[c.Arg] = m
				out = append(out, n)
			}
		}
	}
	return out
}

// boxes calls yield for the disjoint boxes of r and their actions.
func boxes(r *Rule, yield func(box, Action)) {
	left := []box{{}}
	for _, c := range r.Cases {
		var missed []box
		for _, cond := range c.If {
			missed = append(missed, within(left, cond, false)...)
			left = within(left, cond, true)
		}
		for _, b := range left {
			yield(b, c.Action)
		}
		left = missed
	}
	for _, b := range left {
		yield(b, r.Action)
	}
}

func libAction(a Action) lib.ScmpAction {
	switch {
	case a == Allow:
		return lib.ActAllow
	case a == Kill:
		return lib.ActKillProcess
	}
	return lib.ActErrno.SetReturnCode(int16(a))
}

// libNumber is the number that libseccomp wants for a rule: on the architecture it runs on any raw number; on another the native
// one of the same name, so that names newer than the library (2.5.4 ends at futex_waitv, 449) cannot be said. From 424 on numbers
// are the same everywhere, so the native run covers those.
func libNumber(arch Arch, e entry) (lib.ScmpSyscall, bool) {
	if host, err := Host(); err == nil && host == arch {
		return lib.ScmpSyscall(e.nr), true
	}
	nr, err := lib.GetSyscallFromName(e.name)
	return nr, err == nil
}

func libCompile(t *testing.T, p Profile, arch Arch) (Filter, map[uint32]bool) {
	f, err := lib.NewFilter(libAction(p.Default))
	require.NoError(t, err)
	defer f.Release()
	native, err := lib.GetNativeArch()
	require.NoError(t, err)
	want := map[Arch]lib.ScmpArch{AMD64: lib.ArchAMD64, ARM64: lib.ArchARM64}[arch]
	if want != native {
		require.NoError(t, f.AddArch(want))
		require.NoError(t, f.RemoveArch(native))
	}
	require.NoError(t, f.SetBadArchAction(lib.ActKillProcess))
	require.NoError(t, f.SetOptimize(2))
	entries, err := p.entries(arch)
	require.NoError(t, err)
	left := map[uint32]bool{}
	for _, e := range entries {
		nr, ok := libNumber(arch, e)
		if !ok {
			left[e.nr] = true
			continue
		}
		boxes(e.rule, func(b box, a Action) {
			if a == p.Default {
				return // libseccomp answers EACCES to a rule that says what the default says
			}
			var conds []lib.ScmpCondition
			for arg, q := range b {
				if q.mask != 0 {
					c, err := lib.MakeCondition(uint(arg), lib.CompareMaskedEqual, uint64(q.mask), uint64(q.value))
					require.NoError(t, err)
					conds = append(conds, c)
				}
			}
			if len(conds) == 0 {
				require.NoError(t, f.AddRule(nr, libAction(a)), e.name)
				return
			}
			require.NoError(t, f.AddRuleConditional(nr, libAction(a), conds), e.name)
		})
	}
	file, err := os.CreateTemp(t.TempDir(), "bpf")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, f.ExportBPF(file))
	raw, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	if dir := os.Getenv("NSRUN_TEST_SECCOMP_EXPORT"); dir != "" { // for BenchmarkInstall
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%s-%s.bpf", dir, p.Name, arch), raw, 0o644))
	}
	out, err := ParseRaw(raw)
	require.NoError(t, err, "libseccomp's output must pass our check")
	return out, left
}

func TestLibseccompAgrees(t *testing.T) {
	major, minor, micro := lib.GetLibraryVersion()
	t.Logf("libseccomp %d.%d.%d", major, minor, micro)
	for _, arch := range Arches() {
		for _, name := range Names() {
			t.Run(name+"/"+arch.String(), func(t *testing.T) {
				p, err := Lookup(name)
				require.NoError(t, err)
				ours, err := Builtin(name, arch)
				require.NoError(t, err)
				theirs, left := libCompile(t, p, arch)
				t.Logf("%d instructions, libseccomp's %d; %d calls unknown to it", len(ours), len(theirs), len(left))
				entries, err := p.entries(arch)
				require.NoError(t, err)
				rules := map[uint32]*Rule{}
				for _, e := range entries {
					rules[e.nr] = e.rule
				}
				checked := 0
				for nr := uint32(0); nr < 1024; nr++ {
					if left[nr] {
						continue
					}
					for _, args := range edges(rules[nr], many) {
						d := Data{NR: nr, Arch: arch.Audit(), Args: args}
						a, b := run(ours, d), run(theirs, d)
						if a != b {
							require.Failf(t, "verdicts differ", "%+v: %s, libseccomp says %s", d, a, b)
						}
						checked++
					}
				}
				assert.Greater(t, checked, 5000)
				for _, foreign := range []uint32{0, 0x40000003, 0xc000003e, 0xc00000b7} {
					d := Data{NR: 1, Arch: foreign}
					assert.Equal(t, run(theirs, d), run(ours, d), "architecture %x", foreign)
				}
			})
		}
	}
}
