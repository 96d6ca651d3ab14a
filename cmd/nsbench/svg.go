package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Sizes of the plot in pixels. A ratio of 1 is unitWidth long.
const (
	plotWidth  = 800
	labelWidth = 350
	unitWidth  = 220
	maxRatio   = 1.6
	barHeight  = 12
	lineHeight = 16
)

// bar is the ratio of a contender to a bubblewrap.
type bar struct {
	label string
	ratio float64
	base  int // index of the bubblewrap
}

// plot draws the ratios to bubblewrap as bars. Its colours are readable on light and dark pages.
func plot(r *report) string {
	bases := plotBases(r)
	var body strings.Builder
	y := 24
	text := func(x int, class, anchor, s string) {
		fmt.Fprintf(&body, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, html.EscapeString(s))
	}
	text(10, "title", "start", "nsrun beside bubblewrap: ratio of medians, shorter is better")
	y += 8
	top := y
	for _, b := range plotBars(r, bases) {
		if b.base == 0 {
			y += 6
		}
		width := int(min(b.ratio, maxRatio) * unitWidth)
		fmt.Fprintf(&body, `<rect x="%d" y="%d" width="%d" height="%d" class="bar" fill-opacity="%.2f"/>`+"\n", labelWidth, y, width, barHeight, opacity(b.base))
		y += barHeight - 2
		text(labelWidth-8, "text", "end", b.label)
		value := fmt.Sprintf("%.2f", b.ratio)
		if b.ratio > maxRatio {
			value += " (longer)"
		}
		text(labelWidth+width+6, "text", "start", value)
		y += lineHeight - barHeight + 2
	}
	fmt.Fprintf(&body, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="one"/>`+"\n", labelWidth+unitWidth, top, labelWidth+unitWidth, y+4)
	y += lineHeight + 2
	for i, base := range bases {
		fmt.Fprintf(&body, `<rect x="10" y="%d" width="%d" height="%d" class="bar" fill-opacity="%.2f"/>`+"\n", y-10, barHeight, barHeight, opacity(i))
		text(30, "text", "start", "against "+base)
		y += lineHeight
	}
	for _, line := range []string{r.Programs[0].Version + "; the line is bubblewrap = 1", r.Machine.hardware(), r.Machine.conditions()} {
		text(10, "text", "start", line)
		y += lineHeight
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">
<style>
.text { font: 12px sans-serif; fill: #57606a }
.title { font: bold 14px sans-serif; fill: #57606a }
.bar { fill: #4078c0 }
.one { stroke: #57606a; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { .text, .title { fill: #9da7b1 } .bar { fill: #6ca4f8 } .one { stroke: #9da7b1 } }
</style>
%s</svg>
`, plotWidth, y, plotWidth, y, body.String())
}

// opacity tells the bubblewraps' bars apart.
func opacity(base int) float64 { return max(1-0.3*float64(base), 0.2) }

// plotBases are the bubblewraps.
func plotBases(r *report) (names []string) {
	for _, p := range r.Programs[1:] {
		names = append(names, p.Name)
	}
	return names
}

// plotBars are the ratios of what is plotted. A rate becomes the time per run, so that less is better in every bar.
func plotBars(r *report, bases []string) (bars []bar) {
	for _, c := range r.Cases {
		plotted := slices.DeleteFunc(slices.Clone(c.Contenders), func(line row) bool { return !line.Plotted })
		for _, line := range plotted {
			label := c.Title
			if len(plotted) > 1 {
				label += ": " + line.Name
			}
			for _, ratio := range line.Ratios {
				name, _, _ := strings.Cut(ratio.To, ", ")
				b := bar{label: label, ratio: ratio.Median, base: slices.Index(bases, name)}
				if c.Unit == unitRate {
					b.label, b.ratio = label+", time per run", 1/ratio.Median
				}
				if b.base > 0 {
					b.label = ""
				}
				if b.base >= 0 {
					bars = append(bars, b)
				}
			}
		}
	}
	return bars
}
