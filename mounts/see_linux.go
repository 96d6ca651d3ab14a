package mounts

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// See looks at the host as [Lower] does, for those who grant binds without mounting anything: a source that Lower would refuse is an
// [*OpError]. Symlinks are always followed. Of a Mask it is the place that is looked at. The result has one entry for each operation.
func See(ops []Op, look Looker) ([]Seen, error) {
	l := &lowering{look: look}
	for _, op := range ops {
		if op.Kind == Bind && !op.Flags.Has(ReadOnly) {
			l.writable = append(l.writable, op.Source)
		}
	}
	all := make([]Seen, len(ops))
	for i, op := range ops {
		seen, err := l.see(op)
		if err != nil {
			return nil, l.fail(i, op, op, err)
		}
		seen.Op = i
		all[i] = seen
	}
	return all, nil
}

func (l *lowering) see(op Op) (Seen, error) {
	source := op.Source
	switch op.Kind {
	case Bind:
	case Mask:
		source = op.Dest
	default:
		return Seen{}, fmt.Errorf("bug: %s takes a mount", op.Kind)
	}
	at, err := resolve(l.look, source)
	if op.Optional && Absent(err) {
		return Seen{Dest: op.Dest, Missing: true}, nil
	}
	if err == nil && op.Kind == Bind {
		err = l.accept(op, at)
	}
	return Seen{Dest: op.Dest, Source: at.Path, File: at.Type() != unix.S_IFDIR}, err
}
