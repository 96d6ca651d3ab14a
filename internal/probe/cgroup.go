package probe

import (
	"path"
	"slices"
	"strings"
)

// place is where the caller is in one cgroup tree.
type place struct {
	dir         string   // of its own cgroup, as it can be reached; empty if it cannot
	top         bool     // dir is the top of what is mounted
	controllers []string // of version 1
}

// elderIO is the name that the controller io has in version 1.
const elderIO = "blkio"

// wanted are the controllers that limits are made of, and all that have limits; those of version 1 have another name for one.
var (
	wanted  = [...]string{"memory", "pids", "cpu"}
	limited = [...]string{"memory", "pids", "cpu", "io"}
)

// placeV2 finds the caller in the tree of version 2: cgroups(7). There is none if ok is false.
func (h files) placeV2() (p place, ok bool) {
	for _, m := range h.mountsLike(" - cgroup2 ") {
		if m.kind == "cgroup2" {
			return h.placeIn(m, ""), true
		}
	}
	return p, false
}

// placesV1 finds the caller in the trees of version 1 that have controllers which limits are made of.
func (h files) placesV1() (found []place) {
	for _, m := range h.mountsLike(" - cgroup ") {
		if m.kind != "cgroup" {
			continue
		}
		var has []string
		last := ""
		for option := range strings.SplitSeq(m.super, ",") {
			name := option
			if name == elderIO {
				name = "io"
			}
			if slices.Contains(limited[:], name) {
				has, last = append(has, name), option
			}
		}
		if len(has) == 0 {
			continue
		}
		p := h.placeIn(m, last)
		p.controllers = has
		found = append(found, p)
	}
	return found
}

// placeIn joins the mount point with the caller's path below the part of the tree that is mounted there.
func (h files) placeIn(m mount, controller string) place {
	for line := range strings.SplitSeq(h.text("proc/self/cgroup"), "\n") {
		word := strings.SplitN(line, ":", 3)
		if len(word) != 3 || !slices.Contains(strings.Split(word[1], ","), controller) || controller == "" && word[0] != "0" {
			continue
		}
		own, root := path.Clean(word[2]), strings.TrimSuffix(m.root, "/")
		if rest, below := strings.CutPrefix(own+"/", root+"/"); below && !strings.Contains(word[2]+"/", "/../") { // above the namespace's root
			return place{dir: path.Join(m.point, rest), top: path.Clean("/"+rest) == "/"}
		}
	}
	return place{}
}

// lacks lists the controllers that are not among those that a file names.
func lacks(controllers string) (missing []string) {
	has := strings.Fields(controllers)
	for _, c := range wanted {
		if !slices.Contains(has, c) {
			missing = append(missing, c)
		}
	}
	return missing
}
