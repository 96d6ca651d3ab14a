package vm

// Line is a kernel of the matrix: the newest of a line that a suite of Debian's has. Versions cannot be pinned, since an archive keeps the
// newest only.
type Line struct {
	Name  string
	Suite string
	ABI   int // of Landlock
}

// Lines are the kernels that tests run on, oldest first.
var Lines = []Line{
	{"5.10", "bullseye-security", 0},
	{"6.1", "bookworm-security", 2},
	{"6.12", "trixie-security", 6},
	{"6.18", "trixie-backports", 7},
	{"7.0", "trixie-backports", 8},
	{"7.1", "trixie-backports", 9},
	{"7.2", "trixie-backports", 10},
}

// FindLine returns a kernel of the matrix by its name.
func FindLine(name string) (Line, bool) {
	for _, l := range Lines {
		if l.Name == name {
			return l, true
		}
	}
	return Line{}, false
}
