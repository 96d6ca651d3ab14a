package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// policy makes a profile from any bytes: each rule takes a few of them.
func policy(b []byte, arch Arch) Profile {
	next := func() uint32 {
		if len(b) == 0 {
			return 0
		}
		v := uint32(b[0])
		b = b[1:]
		return v
	}
	word := func() uint32 { // small, one bit, or anything
		switch next() % 4 {
		case 0:
			return next()
		case 1:
			return 1 << (next() % 32)
		case 2:
			return ^next()
		}
		return next()<<24 | next()<<16 | next()<<8 | next()
	}
	actions := []Action{Allow, eperm, enosys, Errno(13), Kill, actionTrap, actionLog}
	action := func() Action { return actions[next()%uint32(len(actions))] }
	table, _ := arch.rows()
	p := Profile{Name: "fuzz", Default: enosys}
	seen := map[string]bool{}
	for len(b) > 0 {
		name := table[(next()|next()<<8)%uint32(len(table))].name
		r := Rule{Calls: name, Action: action()}
		for range next() % 4 {
			c := Case{Action: action()}
			for range 1 + next()%3 {
				cond := Cond{Arg: uint8(next() % 6), Mask: word(), Not: next()%2 == 1}
				for range 1 + next()%4 {
					cond.In = append(cond.In, word())
				}
				c.If = append(c.If, cond)
			}
			r.Cases = append(r.Cases, c)
		}
		if !seen[name] {
			seen[name] = true
			p.Rules = append(p.Rules, r)
		}
	}
	return p
}

func FuzzSeccomp(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte{16, 0, 0, 1, 1, 0, 1, 0, 0, 0x12, 1, 0x1c}, uint64(2))
	f.Add([]byte("\x38\x00\x00\x01\x01\x01\x00\x03\x7e\x02\x00\x80\x01\x00\x00\x00some more of it, so that rules are many and trees are deep"), uint64(3))
	random := rand.New(rand.NewPCG(7, 7))
	long := make([]byte, 6000)
	for i := range long {
		long[i] = byte(random.Uint32())
	}
	f.Add(long, uint64(4))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		if len(b) > 8000 {
			return
		}
		random := rand.New(rand.NewPCG(seed, 1))
		for _, arch := range Arches() {
			p := policy(b, arch)
			filter, err := Compile(p, arch)
			if err != nil {
				require.ErrorContains(t, err, "instructions, the kernel takes", "the only fault this policy can have is its length")
				continue
			}
			require.NoError(t, filter.Check())
			entries, err := p.entries(arch)
			require.NoError(t, err)
			for _, e := range entries {
				if e.rule.Action == p.Default && len(e.rule.Cases) == 0 {
					require.Equal(t, p.Default, run(filter, Data{NR: e.nr, Arch: arch.Audit()}), e.name)
					continue
				}
				args := edges(e.rule, 30)
				for range min(len(args), 60) {
					d := Data{NR: e.nr, Arch: arch.Audit(), Args: args[random.IntN(len(args))]}
					require.Equal(t, e.rule.decide(d), run(filter, d), "%s%x", e.name, d.Args)
				}
			}
			for range 10 {
				d := Data{NR: random.Uint32(), Arch: arch.Audit(), Args: [6]uint64{random.Uint64(), random.Uint64(), random.Uint64()}}
				require.Equal(t, evaluate(&p, arch, d), run(filter, d), "number %x", d.NR)
				d.NR = d.NR&0x3fffffff | 0x40000000
				require.NotEqual(t, Allow, run(filter, d), "x32 number %x", d.NR)
				d.Arch = random.Uint32() &^ 0x80000000
				require.Equal(t, Kill, run(filter, d), "architecture %x", d.Arch)
			}
		}
	})
}

func FuzzParseRaw(f *testing.F) {
	for _, name := range Names() {
		filter, err := Builtin(name, AMD64)
		require.NoError(f, err)
		f.Add(filter.Bytes())
	}
	f.Add([]byte{})
	f.Add(make([]byte, 8*MaxLen+8))
	f.Add(Filter{{opJump, 0, 0, 0xffffffff}, {Code: opRet}}.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		filter, err := ParseRaw(b)
		if err != nil {
			return
		}
		require.Equal(t, b, filter.Bytes(), "nothing is lost")
		require.NotEmpty(t, filter.String())
		_, err = Interpret(filter, Data{NR: 1, Arch: AMD64.Audit()})
		require.NoError(t, err, "a checked filter runs to its end")
	})
}

func FuzzInterpret(f *testing.F) {
	f.Add([]byte{opDivX, 0, 0, 0, 0, 0, 0, 0, opRetA, 0, 0, 0, 0, 0, 0, 0}, uint32(1), uint64(2))
	f.Add(Filter{{opLoadMem, 0, 0, 15}, {Code: opRetA}}.Bytes(), uint32(0), uint64(0))
	f.Add(Filter{{opJeq, 255, 255, 0}, {Code: opRet}}.Bytes(), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, nr uint32, arg uint64) {
		var filter Filter // unchecked on purpose
		for ; len(b) >= 8; b = b[8:] {
			filter = append(filter, Instruction{binary.LittleEndian.Uint16(b), b[2], b[3], binary.LittleEndian.Uint32(b[4:])})
		}
		d := Data{NR: nr, Arch: AMD64.Audit(), Args: [6]uint64{arg, ^arg, arg, ^arg, arg, ^arg}}
		_, err := Interpret(filter, d)
		require.Equal(t, filter.Check() == nil, err == nil, "%v", err)
	})
}
