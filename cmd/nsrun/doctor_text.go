package main

import (
	"fmt"
	"math/bits"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// report is what doctor prints for people.
type report struct {
	known   facts.Facts
	what    []string // was asked about
	missing []plan.Note
	tested  []plan.Act // that were tried in a sandbox of this host's, and failed
	engines []engineStatus
	degrade string // the engine that fallback degrade comes to, if any
	colour  bool
}

// String is the verdict, a few lines on the host, and the table: one section each.
func (r report) String() string {
	var out strings.Builder
	for i, section := range []func(*strings.Builder){r.verdict, r.host, r.table, r.engineTable} {
		if i > 0 {
			out.WriteByte('\n')
		}
		section(&out)
	}
	return out.String()
}

// verdict says yes or no, and what is missing: what one action brings is listed together.
func (r report) verdict(out *strings.Builder) {
	what := strings.Join(r.what, " and ")
	if len(r.missing) == 0 {
		fmt.Fprintln(out, r.paint(good, printable("this host can enforce "+what)))
		if len(r.tested) > 0 {
			fmt.Fprintf(out, "self-test: in a sandbox started for it, these failed as they must: %s\n", plan.JoinActs(r.tested))
		}
		return
	}
	fmt.Fprintln(out, r.paint(bad, printable("this host cannot enforce "+what)))
	for _, n := range plan.Together(r.missing) {
		fmt.Fprintf(out, "  %s\n", printable(n.Feature+": "+n.Loss))
		if n.Found != "" {
			fmt.Fprintf(out, "      found: %s\n", printable(n.Found))
		}
		if n.Fix != "" {
			fmt.Fprintf(out, "      fix: %s\n", printable(n.Fix))
		}
	}
}

// host says where this is.
func (r report) host(out *strings.Builder) {
	k := r.known
	fmt.Fprintf(out, "kernel %s %s, uid %d, Landlock ABI %d", printable(k.Kernel), printable(k.Arch), k.UID, k.LandlockABI)
	if fixed := errata(k.LandlockErrata); fixed != "" {
		fmt.Fprintf(out, " (errata fixed: %s)", fixed)
	}
	out.WriteByte('\n')
	if len(k.LandlockRefused) > 0 {
		fmt.Fprintf(out, "Landlock rights that the kernel refuses: %s\n", printable(strings.Join(k.LandlockRefused, " ")))
	}
	if name := k.Distro.Name; name != "" {
		fmt.Fprintf(out, "distribution %s\n", printable(name))
	}
	if len(k.Surroundings) > 0 {
		fmt.Fprintf(out, "inside of %s\n", printable(strings.Join(k.Surroundings, ", ")))
	}
}

// errata lists the numbers of the bits that are set.
func errata(set int) string {
	var numbers []string
	for rest := uint(max(set, 0)); rest != 0; rest &= rest - 1 {
		numbers = append(numbers, fmt.Sprint(bits.TrailingZeros(rest)+1))
	}
	return strings.Join(numbers, " ")
}

// table has a row for each feature, and for those that are not there what that means.
func (r report) table(out *strings.Builder) {
	fmt.Fprintf(out, "%-21s  %-8s %s\n", "feature", "here", "since")
	for _, group := range facts.Groups {
		fmt.Fprintf(out, "\n%s\n", r.paint(bold, group))
		for _, row := range facts.Table {
			if row.Group == group {
				r.row(out, row)
			}
		}
	}
}

func (r report) row(out *strings.Builder, row facts.Feature) {
	state := r.known.State(row.Name)
	look := plain
	switch {
	case state == facts.Yes:
		look = good
	case row.Required && state == facts.No:
		look = bad
	case row.Required:
		look = doubtful
	}
	required := ""
	if row.Required && state != facts.Yes {
		required = "  required"
	}
	fmt.Fprintf(out, "%-21s  %s %s%s\n", row.Name, r.paint(look, printable(fmt.Sprintf("%-8s", state))), row.Since, r.paint(look, required))
	detail := printable(r.known.Answers[row.Name].Detail)
	if detail != "" {
		fmt.Fprintf(out, "    found: %s\n", detail)
	}
	if state != facts.Yes {
		fmt.Fprintf(out, "    lost:  %s\n    fix:   %s\n", printable(row.Loss), printable(r.known.Fix(row.Name)))
	}
}

// engineTable says which engines can carry out the default policy here, and what each does not give.
func (r report) engineTable(out *strings.Builder) {
	fmt.Fprintf(out, "%s\n", r.paint(bold, "engines (--backend)"))
	for _, e := range r.engines {
		out.WriteString(printable(e.String()))
	}
	if r.degrade != "" {
		fmt.Fprintf(out, "with --fallback degrade a run would use %s\n", r.degrade)
	} else {
		fmt.Fprintln(out, "with --fallback degrade a run would be refused all the same")
	}
}

// look is how a word is shown on a terminal: ECMA-48's SGR codes.
type look string

const (
	plain    look = ""
	bold     look = "1"
	good     look = "1;32"
	bad      look = "1;31"
	doubtful look = "33"
)

// paint colours text that is printable already.
func (r report) paint(l look, text string) string {
	if !r.colour || l == plain || text == "" {
		return text
	}
	return "\x1b[" + string(l) + "m" + text + "\x1b[0m"
}

// colour reports whether standard output wants colours: a terminal that can, and nobody said no (https://no-color.org).
func (a *app) colour() bool {
	out, ok := a.stdout.(*os.File)
	return ok && term.IsTerminal(int(out.Fd())) && coloured(a.environ)
}

func coloured(environ []string) bool {
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}
	return true
}
