package cgroup

import (
	"slices"
	"strconv"
)

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

// Limits are bounds on all processes of a group together. 0 is none.
type Limits struct {
	MemoryMB   int64 // in MiB; with it there is no swap
	Pids       int64
	CPUPercent int64 // 100 is one CPU
	ReadMB     int64 // in MiB a second, of each disk
	WriteMB    int64
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

// period is that of the CPU controller, in microseconds: its default, and Docker's.
const period = 100_000

// files are what carries a limit in a tree: of version 2, and of version 1 (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1).
var files = []struct {
	controller string
	amount     func(Limits) int64
	v1, v2     func(n int64) []File
}{
	{"memory", func(l Limits) int64 { return l.MemoryMB },
		func(n int64) []File {
			bytes := number(n << 20)
			return []File{{Name: "memory.limit_in_bytes", Value: bytes}, {Name: "memory.memsw.limit_in_bytes", Value: bytes, Optional: true}}
		},
		func(n int64) []File {
			return []File{{Name: "memory.max", Value: number(n << 20)}, {Name: "memory.swap.max", Value: "0", Optional: true}}
		}},
	{"pids", func(l Limits) int64 { return l.Pids },
		func(n int64) []File { return []File{{Name: "pids.max", Value: number(n)}} },
		func(n int64) []File { return []File{{Name: "pids.max", Value: number(n)}} }},
	{"cpu", func(l Limits) int64 { return l.CPUPercent },
		func(n int64) []File {
			return []File{{Name: "cpu.cfs_period_us", Value: number(period)}, {Name: "cpu.cfs_quota_us", Value: number(n * period / 100)}}
		},
		func(n int64) []File {
			return []File{{Name: "cpu.max", Value: number(n*period/100) + " " + number(period)}}
		}},
	{"io", func(l Limits) int64 { return l.ReadMB },
		func(n int64) []File {
			return []File{{Name: "blkio.throttle.read_bps_device", Value: number(n << 20), Disk: true}}
		},
		func(n int64) []File { return []File{{Name: "io.max", Value: "rbps=" + number(n<<20), Disk: true}} }},
	{"io", func(l Limits) int64 { return l.WriteMB },
		func(n int64) []File {
			return []File{{Name: "blkio.throttle.write_bps_device", Value: number(n << 20), Disk: true}}
		},
		func(n int64) []File { return []File{{Name: "io.max", Value: "wbps=" + number(n<<20), Disk: true}} }},
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Has reports whether groups made at one of the places can have the controller.
func Has(places []Place, controller string) bool {
	return slices.ContainsFunc(places, func(p Place) bool { return slices.Contains(p.Controllers, controller) })
}

// Fit says what is to be made for the limits: for each the first place that has its controller. It returns the controllers that none has.
func Fit(places []Place, l Limits) (trees []Tree, missing []string) {
	for _, f := range files {
		n := f.amount(l)
		if n == 0 {
			continue
		}
		i := slices.IndexFunc(places, func(p Place) bool { return slices.Contains(p.Controllers, f.controller) })
		if i < 0 {
			missing = append(missing, f.controller)
			continue
		}
		p := places[i]
		carry := f.v2
		if p.Version == 1 {
			carry = f.v1
		}
		at := slices.IndexFunc(trees, func(t Tree) bool { return t.Dir == p.Dir })
		if at < 0 {
			at, trees = len(trees), append(trees, Tree{Version: p.Version, Dir: p.Dir, Leave: p.Leave})
		}
		trees[at].enable(p, f.controller)
		if f.controller == "io" { // writes through the page cache are the group's by its memory (cgroup-v2.rst, writeback)
			trees[at].enable(p, "memory")
		}
		trees[at].Files = append(trees[at].Files, carry(n)...)
	}
	for i := range trees {
		trees[i].Leave = trees[i].Leave && len(trees[i].Enable) > 0
	}
	return trees, missing
}

// enable notes that children need a controller, if they have not got it.
func (t *Tree) enable(p Place, controller string) {
	if slices.Contains(p.Enable, controller) && !slices.Contains(t.Enable, controller) {
		t.Enable = append(t.Enable, controller)
	}
}
