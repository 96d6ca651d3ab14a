package cgroup

import "slices"

// Place is a directory of one cgroup tree in which groups can be made, with the controllers that its children can have.
type Place struct {
	Version     int
	Dir         string
	Controllers []string // with their names of version 2
	// Enable lists the controllers that must first be enabled for its children (version 2).
	Enable []string
	// Leave means that this process must leave Dir before it can enable them: a group of version 2 has either processes or children with
	// controllers (cgroups(7), "no internal processes" rule).
	Leave bool
}

// Limit is a limit on all processes of a group together: its controller, and what is written to the group's files in each version
// (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1). A version without files does not have the limit.
type Limit struct {
	Controller string
	V1, V2     []File
}

// files returns the files of l for groups in p, or nil if they cannot have the limit.
func (l Limit) files(p Place) []File {
	switch {
	case !slices.Contains(p.Controllers, l.Controller):
		return nil
	case p.Version == 1:
		return l.V1
	}
	return l.V2
}

// At returns the first place whose groups can have the limit.
func (l Limit) At(places []Place) (Place, bool) {
	i := slices.IndexFunc(places, func(p Place) bool { return len(l.files(p)) > 0 })
	if i < 0 {
		return Place{}, false
	}
	return places[i], true
}

// Tree describes the group to be made in one cgroup tree.
type Tree struct {
	Version int      `json:"version"`
	Dir     string   `json:"dir"` // the parent
	Enable  []string `json:"enable,omitempty"`
	Leave   bool     `json:"leave,omitempty"`
	Files   []File   `json:"files"`
}

// File is a value to be written to one file of the new group.
type File struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Disk writes the value once for each disk of the host, after the disk's device number.
	Disk bool `json:"disk,omitempty"`
	// Optional skips the file if it does not exist. The files for swap, for instance, exist only with swap accounting.
	Optional bool `json:"optional,omitempty"`
}

// Fit returns the groups to be made for limits, each limit at the first place that can have it. It leaves out a limit that no place can
// have.
func Fit(places []Place, limits []Limit) (trees []Tree) {
	for _, l := range limits {
		p, ok := l.At(places)
		if !ok {
			continue
		}
		at := slices.IndexFunc(trees, func(t Tree) bool { return t.Dir == p.Dir })
		if at < 0 {
			at, trees = len(trees), append(trees, Tree{Version: p.Version, Dir: p.Dir, Leave: p.Leave})
		}
		trees[at].enable(p, l.Controller)
		if l.Controller == "io" { // writes through the page cache count for the group that owns the memory (cgroup-v2.rst, writeback)
			trees[at].enable(p, "memory")
		}
		trees[at].Files = append(trees[at].Files, l.files(p)...)
	}
	for i := range trees {
		trees[i].Leave = trees[i].Leave && len(trees[i].Enable) > 0
	}
	return trees
}

// enable records that the tree's children need a controller which is not enabled yet.
func (t *Tree) enable(p Place, controller string) {
	if slices.Contains(p.Enable, controller) && !slices.Contains(t.Enable, controller) {
		t.Enable = append(t.Enable, controller)
	}
}
