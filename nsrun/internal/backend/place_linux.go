package backend

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// Place is a mount point and what must stand there. Other programs resolve names again, a container engine even as root, and whoever can write
// beside what is granted may have put a symlink there since nsrun looked.
type Place struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// places says what must stand where once operations have been carried out, the last one at each place counting.
func places(ops []mounts.Op) (out []Place, err error) {
	for _, op := range ops {
		out = slices.DeleteFunc(out, func(p Place) bool { return p.Path == op.Dest })
		if op.Kind != mounts.Bind {
			continue
		}
		st, err := statNoLinks(op.Source)
		if err != nil {
			return nil, &Error{Stage: "mount", Op: "look at", Path: op.Source, Err: err, Hint: "it has changed since it was looked at; try again"}
		}
		out = append(out, Place{op.Dest, st.Dev, st.Ino})
	}
	return out, nil
}

// checkPlaces looks from the inside. What cannot be entered cannot be by the command either.
func (o *Orders) checkPlaces() *farFailure {
	for _, want := range o.Places {
		st, err := statNoLinks(want.Path)
		switch {
		case errors.Is(err, unix.EACCES):
		case err != nil:
			return &farFailure{Stage: "mount", Op: "look at", Path: want.Path, Errno: int(errnoOf(err))}
		case st.Dev != want.Dev || st.Ino != want.Ino:
			return &farFailure{Stage: "mount", Op: "look at", Path: want.Path, Text: "something else is there than what was granted: it has changed since; try again"}
		}
	}
	return nil
}

// statNoLinks tells what stands at a path, and fails if a symlink is on the way or at its end.
func statNoLinks(name string) (st unix.Stat_t, err error) {
	fd, err := mounts.OpenExact(name)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}
