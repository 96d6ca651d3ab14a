package cgroup

import "slices"

// Place is where groups can be made: a directory of one tree, and the controllers that its children can have.
type Place struct {
	Version     int
	Dir         string
	Controllers []string // by the names of version 2
	// Enable lists those that are to be enabled for its children first (version 2).
	Enable []string
	// Leave says that this process has to leave Dir before they can be: a group has processes, or children with controllers.
	Leave bool
}

// Limit is a bound on all processes of a group together: the controller that it takes, and what is written to files of a group of either
// version (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1). A version without files cannot have it.
type Limit struct {
	Controller string
	V1, V2     []File
}

func (l Limit) files(p Place) []File {
	switch {
	case !slices.Contains(p.Controllers, l.Controller):
		return nil
	case p.Version == 1:
		return l.V1
	}
	return l.V2
}

// At is the first place whose groups can have the limit.
func (l Limit) At(places []Place) (Place, bool) {
	i := slices.IndexFunc(places, func(p Place) bool { return len(l.files(p)) > 0 })
	if i < 0 {
		return Place{}, false
	}
	return places[i], true
}

// Tree is what is to be made in one tree.
type Tree struct {
	Version int      `json:"version"`
	Dir     string   `json:"dir"` // of the parent
	Enable  []string `json:"enable,omitempty"`
	Leave   bool     `json:"leave,omitempty"`
	Files   []File   `json:"files"`
}

// File is what is written to a file of the new group's, in order.
type File struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Disk has it written once for each disk of the host, after its number.
	Disk bool `json:"disk,omitempty"`
	// Optional leaves it out where there is no such file: without swap, or its accounting, there is none for that.
	Optional bool `json:"optional,omitempty"`
}

// Fit says what is to be made for the limits, each at the first place that can have it. A limit that no place can have is left out.
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
		if l.Controller == "io" { // writes through the page cache are the group's by its memory (cgroup-v2.rst, writeback)
			trees[at].enable(p, "memory")
		}
		trees[at].Files = append(trees[at].Files, l.files(p)...)
	}
	for i := range trees {
		trees[i].Leave = trees[i].Leave && len(trees[i].Enable) > 0
	}
	return trees
}

// enable notes that children need a controller, if they have not got it.
func (t *Tree) enable(p Place, controller string) {
	if slices.Contains(p.Enable, controller) && !slices.Contains(t.Enable, controller) {
		t.Enable = append(t.Enable, controller)
	}
}
