package mounts

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Resolve looks at the host as [Lower] does, for those who grant binds without mounting anything: a source that Lower would refuse is an
// [*fault.Error]. Symlinks are always followed. Of a Mask it is the place that is looked at. The result has one entry for each operation.
func Resolve(ops []Op, resolver Resolver) ([]Resolved, error) {
	l := &lowering{resolver: resolver}
	for _, op := range ops {
		if op.Kind == Bind && !op.Flags.Has(ReadOnly) {
			l.writable = append(l.writable, op.Source)
		}
	}
	all := make([]Resolved, len(ops))
	for i, op := range ops {
		resolved, err := l.recordResolved(op)
		if err != nil {
			return nil, l.fail(i, op, op, err)
		}
		resolved.Op = i
		all[i] = resolved
	}
	return all, nil
}

func (l *lowering) recordResolved(op Op) (Resolved, error) {
	source := op.Source
	switch op.Kind {
	case Bind:
	case Mask:
		source = op.Dest
	default:
		return Resolved{}, fmt.Errorf("bug: %s takes a mount", op.Kind)
	}
	at, err := resolve(l.resolver, source)
	if op.Optional && Absent(err) {
		return Resolved{Dest: op.Dest, Missing: true}, nil
	}
	if err == nil && op.Kind == Bind {
		err = l.accept(op, at)
	}
	return Resolved{Dest: op.Dest, Source: at.Path, File: at.Type() != unix.S_IFDIR}, err
}
