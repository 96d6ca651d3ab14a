package mounts

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Resolve checks the binds and masks of ops against the host as [Lower] does, for a caller that grants paths without mounting anything
// (Landlock). It follows every symlink. A bind whose source Lower would refuse is a [*Error]. For a Mask it resolves the destination.
// The result has one entry for each operation.
func Resolve(ops []Op, resolver Resolver) ([]Resolved, error) {
	l := &lowering{resolver: resolver}
	l.noteWritable(ops)
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

// recordResolved resolves the path of one operation and, for a bind, checks that it may be granted.
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
	if op.Optional && (Absent(err) || errors.Is(err, unix.EACCES) && within(source, "/sys")) {
		return Resolved{Dest: op.Dest, Missing: true}, nil
	}
	if err == nil && op.Kind == Bind {
		err = l.accept(op, at)
	}
	return Resolved{Dest: op.Dest, Source: at.Path, File: at.Type() != unix.S_IFDIR}, err
}
