package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// report is all that nsbench finds out. Its JSON is what --json writes.
type report struct {
	Machine  machine     `json:"machine"`
	Rounds   int         `json:"rounds"`
	Workers  int         `json:"workers"`
	Programs []program   `json:"programs"`
	Cases    []result    `json:"cases"`
	LeftOut  []exception `json:"left_out"`
}

// program is one that is measured, by a copy.
type program struct {
	Name    string `json:"name"` // in the results
	Path    string `json:"path"`
	Version string `json:"version"` // as it prints it

	copied string
}

// exception is a contender, or a whole case, that could not be measured.
type exception struct {
	Case string `json:"case"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// result is a contest's outcome.
type result struct {
	Group      string `json:"group"`
	Title      string `json:"title"`
	Unit       string `json:"unit"`
	Rounds     int    `json:"rounds"`
	Contenders []row  `json:"contenders"`
}

// row is what the samples of one contender come to.
type row struct {
	Name      string    `json:"name"`
	Quantiles quantiles `json:"quantiles"`
	Usage     *usage    `json:"usage,omitempty"` // medians; nil if nothing was waited for
	Ratios    []ratio   `json:"ratios"`
	Plotted   bool      `json:"-"`
}

// quantiles are in the result's unit.
type quantiles struct {
	Min    float64 `json:"min"`
	P5     float64 `json:"p5"`
	P25    float64 `json:"p25"`
	Median float64 `json:"median"`
	P75    float64 `json:"p75"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// ratio compares a contender with another one: their medians, and the best that each reached, the minimum, or for a rate the maximum.
type ratio struct {
	To     string  `json:"to"`
	Median float64 `json:"median"`
	Best   float64 `json:"best"`
}

func newQuantiles(samples []sample) quantiles {
	v := sortedParts(samples, func(s sample) float64 { return s.value })
	return quantiles{v[0], quantile(v, 0.05), quantile(v, 0.25), quantile(v, 0.5), quantile(v, 0.75), quantile(v, 0.95), v[len(v)-1]}
}

// result sums up the contest.
func (c contest) result(group string) result {
	r := result{Group: group, Title: c.title, Unit: c.unit, Rounds: c.rounds}
	for _, p := range c.contenders {
		line := row{Name: p.name, Quantiles: newQuantiles(p.samples), Ratios: []ratio{}, Plotted: p.plotted}
		took := usage{median(p.samples, func(s sample) float64 { return s.CPU }), median(p.samples, func(s sample) float64 { return s.Faults }),
			median(p.samples, func(s sample) float64 { return s.Switches })}
		if took != (usage{}) {
			line.Usage = &took
		}
		r.Contenders = append(r.Contenders, line)
	}
	for j, base := range c.contenders {
		for i := range r.Contenders {
			if base.base && i != j {
				r.Contenders[i].Ratios = append(r.Contenders[i].Ratios, newRatio(r.Contenders[i].Quantiles, r.Contenders[j], c.unit))
			}
		}
	}
	return r
}

func newRatio(of quantiles, base row, unit string) ratio {
	to := base.Quantiles
	if unit == unitRate {
		return ratio{base.Name, of.Median / to.Median, of.Max / to.Max}
	}
	return ratio{base.Name, of.Median / to.Median, of.Min / to.Min}
}

// print prints the result as two tables: the values, and the ratios.
func (r result) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s: %s, %d rounds\n", r.Title, r.Unit, r.Rounds)
	best := "minima"
	if r.Unit == unitRate {
		best = "maxima"
	}
	width := len("ratio of medians, minima")
	for _, c := range r.Contenders {
		width = max(width, utf8.RuneCountInString(c.Name))
	}
	header := fmt.Sprintf("  %-*s %9s %9s %9s %9s %9s %9s", width, "", "min", "p5", "p25", "median", "p75", "p95")
	if slices.ContainsFunc(r.Contenders, func(c row) bool { return c.Usage != nil }) {
		header += fmt.Sprintf(" %9s %7s %8s", "CPU ms", "faults", "switches")
	}
	fmt.Fprintln(out, header)
	for _, c := range r.Contenders {
		line := fmt.Sprintf("  %-*s", width, c.Name)
		q := c.Quantiles
		for _, v := range []float64{q.Min, q.P5, q.P25, q.Median, q.P75, q.P95} {
			line += fmt.Sprintf(" %9s", short(v))
		}
		if u := c.Usage; u != nil {
			line += fmt.Sprintf(" %9.2f %7.0f %8.0f", u.CPU, u.Faults, u.Switches)
		}
		fmt.Fprintln(out, line)
	}
	r.printRatios(out, width, best)
}

func (r result) printRatios(out io.Writer, width int, best string) {
	var bases []string
	for _, c := range r.Contenders {
		if slices.ContainsFunc(r.Contenders, func(other row) bool { return other.ratio(c.Name) != nil }) {
			bases = append(bases, c.Name)
		}
	}
	if len(bases) == 0 {
		return
	}
	fmt.Fprintf(out, "  %-*s  %s\n", width, "ratio of medians, "+best, "to "+strings.Join(bases, ", to "))
	for _, c := range r.Contenders {
		line := fmt.Sprintf("  %-*s", width, c.Name)
		for _, base := range bases {
			cell := "1"
			if ratio := c.ratio(base); ratio != nil {
				cell = short(ratio.Median) + " " + short(ratio.Best)
			}
			line += fmt.Sprintf("  %-*s", len("to ")+len(base), cell)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// ratio returns the row's ratio to the contender of that name, or nil.
func (r row) ratio(to string) *ratio {
	for i := range r.Ratios {
		if r.Ratios[i].To == to {
			return &r.Ratios[i]
		}
	}
	return nil
}

// short formats a figure with two or three significant digits, and all those before the point.
func short(v float64) string {
	switch {
	case v < 0.1:
		return fmt.Sprintf("%.3f", v)
	case v < 100:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// leaveOut reports that a contender is not measured.
func (b *bench) leaveOut(title, name, why string) {
	b.report.LeftOut = append(b.report.LeftOut, exception{title, name, why})
	fmt.Fprintf(b.out, "\n%s: %s is left out: %s\n", title, name, why)
}
