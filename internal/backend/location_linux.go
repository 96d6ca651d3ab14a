package backend

import (
	"errors"
	"slices"

	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// Location is a mount point and the file that must be there. Other programs resolve the paths again, a container engine even as root, and a
// process that can write beside a granted path may have put a symlink there since nsrun looked.
type Location struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// locations returns the files that must be at their mount points after all operations. The last operation at each place counts.
func locations(ops []mounts.Op) (out []Location, err error) {
	for _, op := range ops {
		out = slices.DeleteFunc(out, func(p Location) bool { return p.Path == op.Dest })
		if op.Kind != mounts.Bind {
			continue
		}
		st, err := statNoLinks(op.Source)
		if err != nil {
			return nil, &Error{Stage: "mount", Op: "look at", Path: op.Source, Err: err, Hint: "it has changed since it was looked at; try again"}
		}
		out = append(out, Location{op.Dest, st.Dev, st.Ino})
	}
	return out, nil
}

// checkLocations checks the mount points from the remote side. A path that this process may not search is skipped: the command cannot reach
// it either.
func (o *RemoteRequest) checkLocations() *Error {
	for _, want := range o.Locations {
		st, err := statNoLinks(want.Path)
		switch {
		case errors.Is(err, unix.EACCES):
		case err != nil:
			return &Error{Stage: "mount", Op: "look at", Path: want.Path, Err: errnoOf(err)}
		case st.Dev != want.Dev || st.Ino != want.Ino:
			return &Error{Stage: "mount", Op: "look at", Path: want.Path, Err: errors.New("something else is there than what was granted: it has changed since; try again")}
		}
	}
	return nil
}

// statNoLinks stats the file at a path, and fails if the path has a symlink on the way or at its end.
func statNoLinks(name string) (st unix.Stat_t, err error) {
	fd, err := mounts.OpenExact(name)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}
