package probe

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
)

// groups lists where groups can be made for sandboxes, and who can be asked for one more place in the tree of version 2 if there is none: may
// says what this process may write to.
func (h files) groups(pid string, uid int, may func(path string) bool) (found []facts.Group, m *facts.Manager) {
	h.FS = &memory{h.FS, map[string][]byte{}}
	if g, ok := h.groupsV2(pid, may); ok {
		found = append(found, g)
	} else {
		m = h.manager(uid, may)
	}
	for _, p := range h.placesV1() {
		if p.dir != "" && may(p.dir) {
			found = append(found, facts.Group{Version: 1, Dir: p.dir, Controllers: p.controllers})
		}
	}
	return found, m
}

// mayHaveGroupV2 reports whether groupsV2 can find a place, by fewer looks: whether one of the controllers that limits need is where cgroups
// are usually mounted (the second is their place beside version 1), and in this process's own group or the one above it, which it may write to.
func (h files) mayHaveGroupV2(may func(path string) bool) bool {
	limits := func(dir string) bool {
		has := strings.Fields(h.text(strings.TrimPrefix(path.Join(dir, "cgroup.controllers"), "/")))
		return slices.ContainsFunc(has, func(c string) bool { return slices.Contains(limited[:], c) })
	}
	for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if !limits(top) { // a group below has no more
			continue
		}
		for line := range strings.SplitSeq(h.text("proc/self/cgroup"), "\n") {
			own, v2 := strings.CutPrefix(line, "0::")
			at := path.Join(top, own)
			if v2 && (may(at) && limits(at) || may(path.Dir(at)) && limits(path.Dir(at))) {
				return true
			}
		}
	}
	return false
}

// groupsV2 finds the place in the tree of version 2: beside the caller's own group, or, where that is the top or the only process in it is
// this one, in it. A process is moved there by who may write to cgroup.procs of both groups and of the one that they have in common:
// cgroups(7), delegation containment rules.
func (h files) groupsV2(pid string, may func(path string) bool) (facts.Group, bool) {
	p, mounted := h.placeV2()
	if !mounted || p.dir == "" {
		return facts.Group{}, false
	}
	read := func(dir, name string) string { return h.text(strings.TrimPrefix(path.Join(dir, name), "/")) }
	try := func(dir string, leave bool) (facts.Group, bool) {
		g := facts.Group{Version: 2, Dir: dir}
		has := slices.DeleteFunc(strings.Fields(read(dir, "cgroup.controllers")), func(c string) bool { return !slices.Contains(limited[:], c) })
		if len(has) == 0 || !may(dir) || !may(path.Join(dir, "cgroup.procs")) {
			return g, false
		}
		on := strings.Fields(read(dir, "cgroup.subtree_control"))
		// A group with processes cannot have children with controllers; the root can (cgroup-v2.rst, no internal process constraint).
		root := !h.has(strings.TrimPrefix(path.Join(dir, "cgroup.type"), "/"))
		procs := strings.Fields(read(dir, "cgroup.procs"))
		able := may(path.Join(dir, "cgroup.subtree_control")) && (root || len(procs) == 0 || leave && slices.Equal(procs, []string{pid}))
		for _, c := range has {
			switch {
			case slices.Contains(on, c):
				g.Controllers = append(g.Controllers, c)
			case able:
				g.Controllers, g.Enable = append(g.Controllers, c), append(g.Enable, c)
				g.Leave = !root && len(procs) > 0
			}
		}
		return g, len(g.Controllers) > 0
	}
	if !p.top {
		if g, ok := try(path.Dir(p.dir), false); ok {
			return g, true
		}
	}
	return try(p.dir, true)
}

// memory reads each file once.
type memory struct {
	fs.FS
	read map[string][]byte
}

// ReadFile is that of [fs.ReadFileFS]. What cannot be read is empty.
func (m *memory) ReadFile(name string) ([]byte, error) {
	data, ok := m.read[name]
	if !ok {
		data, _ = fs.ReadFile(m.FS, name)
		m.read[name] = data
	}
	return data, nil
}
