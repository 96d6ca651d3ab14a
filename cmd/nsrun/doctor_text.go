package main

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// report is what doctor prints for people.
type report struct {
	known    facts.Facts
	what     []string // was asked about
	missing  []plan.Note
	tested   []plan.Act // that were tried in a sandbox of this host's, and failed
	backends []backendStatus
	degrade  string // the backend that fallback degrade comes to, if any
	colour   bool
	all      bool // every feature and backend has lines of its own
}

// String is the verdict, a few lines on the host, a line for each group, and each cause of what is missing; or, with all, the tables.
func (r report) String() string {
	sections := []func(*strings.Builder){r.verdict, r.host, r.summary, r.lacks}
	if r.all {
		sections = []func(*strings.Builder){r.verdict, r.host, r.table, r.backendTable}
	}
	var out strings.Builder
	for _, section := range sections {
		var text strings.Builder
		if section(&text); text.Len() > 0 && out.Len() > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(text.String())
	}
	return out.String()
}

// verdict says yes or no, and what is missing.
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
	causes(out, r.missing)
	if profile, err := r.known.Program.AppArmorProfile(); err == nil && slices.ContainsFunc(r.missing, func(n plan.Note) bool { return n.Fix == r.known.Program.AppArmorFix() }) {
		fmt.Fprintf(out, "the AppArmor profile that this loads:\n")
		for line := range strings.Lines(profile) {
			fmt.Fprintf(out, "  %s\n", printable(strings.TrimSuffix(line, "\n")))
		}
	}
}

// causes prints each cause once: the first feature that it takes away with what is lost, and the names of the others.
func causes(out *strings.Builder, missing []plan.Note) {
	for _, n := range plan.Together(missing) {
		first, others, _ := strings.Cut(n.Feature, ", ")
		fmt.Fprintf(out, "  %s\n", printable(first+": "+n.Loss))
		for _, line := range []struct{ name, text string }{{"found", n.Found}, {"fix", n.Fix}, {"also missing for this", others}} {
			if line.text != "" {
				fmt.Fprintf(out, "      %s: %s\n", line.name, printable(line.text))
			}
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
	if k.In("wsl2-mirrored") {
		fmt.Fprintln(out, "with --net host a sandbox reaches what listens on 127.0.0.1 in Windows: WSL 2 mirrors the network of Windows")
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

// summary has a line for each group of features, one for the backends, and one for what fallback degrade comes to.
func (r report) summary(out *strings.Builder) {
	for _, group := range facts.Groups {
		if group == facts.Backends {
			continue
		}
		count := 0
		var without []string
		for _, row := range facts.Table {
			if row.Group != group {
				continue
			}
			if count++; r.known.State(row.Name) != facts.Yes {
				without = append(without, string(row.Name))
			}
		}
		fmt.Fprintf(out, "%-12s  ", group)
		switch len(without) {
		case 0:
			fmt.Fprintf(out, "all %d\n", count)
		case count:
			fmt.Fprintf(out, "none of %d\n", count)
		default:
			fmt.Fprintf(out, "%d of %d, not %s\n", count-len(without), count, strings.Join(without, ", "))
		}
	}
	var here, absent []string
	for _, e := range r.backends {
		switch {
		case e.Name == string(policy.BackendNone): // it is no sandbox
		case e.Available:
			here = append(here, printable(e.Name))
		default:
			absent = append(absent, printable(e.Name))
		}
	}
	text := strings.Join(here, ", ")
	if len(absent) > 0 {
		text += "; not " + strings.Join(absent, ", ")
	}
	fmt.Fprintf(out, "%-12s  %s\n", "backends", text)
	r.degraded(out)
	fmt.Fprintln(out, "nsrun doctor --all has a line for each feature and backend")
}

// lacks prints what else is missing here that would be of use, by its causes.
func (r report) lacks(out *strings.Builder) {
	var missing []plan.Note
	for _, row := range facts.Table {
		if row.Group != facts.Backends && r.known.State(row.Name) != facts.Yes && !r.needless(row) && !r.reported(row.Name) {
			missing = append(missing, plan.Note{Feature: string(row.Name), Loss: row.Loss, Found: r.known.Answers[row.Name].Detail, Fix: r.known.Fix(row.Name)})
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "%s\n", r.paint(bold, "missing, but not required"))
		causes(out, missing)
	}
}

// reported reports whether the verdict has the feature, or the cause for which it is missing.
func (r report) reported(name facts.Name) bool {
	return slices.ContainsFunc(r.missing, func(n plan.Note) bool {
		return n.Feature == string(name) || n.Found != "" && n.Fix == r.known.Fix(name)
	})
}

// needless reports whether nothing is lost without a feature, since there is another for the same.
func (r report) needless(row facts.Feature) bool {
	grouped := len(r.known.Groups) > 0 || r.known.State(facts.CgroupV2) == facts.Yes
	switch row.Name {
	case facts.CgroupV1: // cgroup_v2 has the cause
		return true
	case facts.CgroupV2:
		return grouped
	case facts.SystemdScope:
		return grouped || r.known.State(facts.CgroupV2) == facts.No && r.known.Manager == nil
	case facts.PidMax:
		return grouped || r.known.UID != 0
	}
	return strings.HasPrefix(row.Loss, "nothing")
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

// backendTable says which backends can carry out the default policy here, and what each does not give.
func (r report) backendTable(out *strings.Builder) {
	fmt.Fprintf(out, "%s\n", r.paint(bold, "backends (--backend)"))
	for _, e := range r.backends {
		out.WriteString(printable(e.String()))
	}
	r.degraded(out)
}

func (r report) degraded(out *strings.Builder) {
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
