package seccomp

import "math/rand/v2"

// evaluate is the naive reading of a profile: the reference for everything compiled.
func evaluate(p *Profile, arch Arch, d Data) Action {
	if d.Arch != arch.Audit() || arch == AMD64 && d.NR >= 0x40000000 && d.NR < 0x80000000 {
		return Kill
	}
	entries, err := p.entries(arch)
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if e.nr == d.NR {
			return e.rule.decide(d)
		}
	}
	return p.Default
}

func (r *Rule) decide(d Data) Action {
next:
	for _, c := range r.Cases {
		for _, cond := range c.If {
			v, in := uint32(d.Args[cond.Arg]), false
			if cond.Mask != 0 {
				v &= cond.Mask
			}
			for _, w := range cond.In {
				in = in || v == w
			}
			if in == cond.Not {
				continue next
			}
		}
		return c.Action
	}
	return r.Action
}

const garbage = 0xdeadbeef << 32

// many is how many random combinations of edge values a thorough test takes.
const many = 4000

// edges returns arguments on both sides of every comparison of r, with and without high bits, and some combinations at random.
func edges(r *Rule, combinations int) [][6]uint64 {
	const ones = ^uint64(0)
	out := [][6]uint64{{}, {ones, ones, ones, ones, ones, ones}}
	if r == nil || len(r.Cases) == 0 {
		return append(out, [6]uint64{garbage, garbage, garbage, garbage, garbage, garbage})
	}
	values := [6][]uint64{}
	for i := range values {
		values[i] = []uint64{0}
	}
	for _, c := range r.Cases {
		for _, cond := range c.If {
			for _, v := range cond.In {
				for _, w := range []uint32{v, v + 1, v - 1, v | cond.Mask, v ^ 1<<31, v | ^cond.Mask} {
					values[cond.Arg] = append(values[cond.Arg], uint64(w), garbage|uint64(w))
				}
			}
			for bit := range 32 {
				values[cond.Arg] = append(values[cond.Arg], 1<<bit, garbage|1<<bit)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range combinations {
		var args [6]uint64
		for i, vs := range values {
			args[i] = vs[random.IntN(len(vs))]
		}
		out = append(out, args)
	}
	for i, vs := range values {
		for _, v := range vs {
			var args [6]uint64
			args[i] = v
			out = append(out, args)
		}
	}
	return out
}

// run interprets a filter that was checked before.
func run(f Filter, d Data) Action {
	a, _, err := interpret(f, d)
	if err != nil {
		panic(err)
	}
	return a
}
