package sys

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// WriteTo prints a program that was written with Trace in the style of strace: one call a line, with the numbers that errors use. Slots
// print as $n. The indented calls after a spawn are the child's.
func (p *Program) WriteTo(w io.Writer) (int64, error) {
	var out strings.Builder
	step, end := -1, -1
	for i := range p.calls {
		c := &p.calls[i]
		var args []Arg
		if p.Trace {
			args = p.args[i]
		}
		if int(c.step) != step {
			step = int(c.step)
			if step >= 0 {
				fmt.Fprintf(&out, "# %s\n", p.steps[step])
			}
		}
		indent := ""
		if i <= end {
			indent = "    "
		}
		fmt.Fprintf(&out, "%4d  %s%s\n", i, indent, c.text(args))
		if c.kind == kindSpawn || c.kind == kindFork {
			end = i + int(c.from)
		}
	}
	n, err := io.WriteString(w, out.String())
	return int64(n), err
}

// String prints the program as [Program.WriteTo] does.
func (p *Program) String() string {
	var out strings.Builder
	p.WriteTo(&out)
	return out.String()
}

// text returns one call as a line: openat(AT_FDCWD, "/", O_PATH) = $1, or ENOENT: skip 2.
func (c *Call) text(args []Arg) string {
	var out strings.Builder
	switch c.kind {
	case kindFail:
		fmt.Fprintf(&out, "fail(%s)", unix.ErrnoName(unix.Errno(c.errno)))
	case kindSpawn:
		shares := [...]string{spawnShared: "", spawnApart: ", apart", spawnHelper: ", sharing descriptors"}[c.to]
		fmt.Fprintf(&out, "spawn(%d calls%s)", c.from, shares)
	case kindFork:
		fmt.Fprintf(&out, "fork(%d calls)", c.from)
	case kindReap:
		fmt.Fprintf(&out, "reap(until $%d, status to %d)", c.keep, c.from)
		if c.to != 0 {
			out.WriteString(", then all")
		}
		return out.String()
	case kindCompare:
		return fmt.Sprintf("compare(%d bytes), else %s", c.from, unix.ErrnoName(unix.Errno(c.errno)))
	case kindReplace:
		return fmt.Sprintf("replace(entry %s by %s)", args[0].print(c), args[1].print(c))
	case kindCopy:
		return fmt.Sprintf("copy(from %d to its end, to $%d)", c.from, c.keep)
	case kindReport:
		return fmt.Sprintf("report to %d", c.from)
	case kindGuard:
		fmt.Fprintf(&out, "guard(until $%d, status to %d, signals from $%d)", c.keep, c.from, c.to)
		if c.min != 0 {
			out.WriteString(", then kill its group")
		}
		return out.String()
	case kindSend:
		return fmt.Sprintf("send($%d, as %q, to %d)", c.keep, c.to, c.from)
	case kindServe:
		fmt.Fprintf(&out, "serve(requests from %d, signals from $%d): supervisors make calls %d..%d, commands %d..%d", c.from, c.keep, c.a[0], int(c.a[2])-1, c.a[2], int(c.a[3])-1)
		if c.min != 0 {
			out.WriteString("; kill by domain")
		}
		if c.to != 0 {
			out.WriteString("; each dies with its parent")
		}
		return out.String()
	case kindDrain:
		return "drain(until no child is left)"
	case kindExpect:
		fmt.Fprintf(&out, "expect(end of $%d), else %s", c.keep, unix.ErrnoName(unix.Errno(c.errno)))
		if c.to != 0 {
			out.WriteString("; a signal is as good")
		}
		return out.String()
	case kindForeign:
		out.WriteString("getpid() of another architecture")
	case kindJoin:
		out.WriteString("clone(CLONE_PARENT|SIGCHLD), and end")
	default:
		words := make([]string, len(args))
		for i, a := range args {
			words[i] = a.print(c)
		}
		fmt.Fprintf(&out, "%s(%s)", Name(uintptr(c.nr)), strings.Join(words, ", "))
	}
	if c.keep != 0 {
		fmt.Fprintf(&out, " = $%d", c.keep)
	}
	if c.min != 0 {
		fmt.Fprintf(&out, " >= %d", c.min)
	}
	out.WriteString(c.tolerated())
	return out.String()
}

// tolerated returns what follows a call in the text: the errors that it may fail with, and how many calls are left out then.
func (c *Call) tolerated() string {
	var out strings.Builder
	for i, t := range c.tol[:c.ntol] {
		sep := ", or "
		if i > 0 {
			sep = ", "
		}
		name := "any"
		if t.errno != int16(Any) {
			name = unix.ErrnoName(unix.Errno(t.errno))
		}
		fmt.Fprintf(&out, "%s%s", sep, name)
		if t.skip != 0 {
			fmt.Fprintf(&out, ": skip %d", t.skip)
		}
	}
	return out.String()
}

// CallName returns the name of call i: that of its system call, or for a call that is no system call the name that prints, such as "spawn".
func (p *Program) CallName(i int) string {
	name, _, _ := strings.Cut(p.calls[i].text(nil), "(")
	return name
}
