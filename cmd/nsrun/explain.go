package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/term"
)

// explainFlag is the level of --explain, which need not be given.
type explainFlag policy.Explain

// IsBoolFlag says that the flag stands without a value, too.
func (e *explainFlag) IsBoolFlag() bool { return true }

func (e *explainFlag) String() string { return string(*e) }

// Set takes a level.
func (e *explainFlag) Set(word string) error {
	if word == "true" {
		word = string(policy.ExplainOn)
	}
	if !slices.Contains(policy.Explains, policy.Explain(word)) {
		return fmt.Errorf("use --explain, --explain=all or --explain=off")
	}
	*e = explainFlag(word)
	return nil
}

// explainable reports whether a run of a plan that does not explain could have.
func explainable(p *plan.Plan) bool {
	return p.Explain == nil && slices.Contains([]string{plan.BackendNative, plan.BackendLandlock, plan.BackendBwrap}, p.Backend) &&
		!slices.ContainsFunc(p.Notes, func(n plan.Note) bool { return n.Feature == "explain" })
}

// explainHint is for people whose command has failed without --explain. What a program reads has no line for each exit code that is no failure.
func (a *app) explainHint(p *plan.Plan, r result.Result) string {
	if err, ok := a.stderr.(*os.File); r.Verdict != result.Exit || !explainable(p) || !ok || !term.IsTerminal(int(err.Fd())) {
		return ""
	}
	return fmt.Sprintf("exit code %d: if the sandbox is in the way, --explain says what was refused", r.Code)
}

// deniedLines are what was refused to a command that failed, the last first.
func deniedLines(r result.Result) []string {
	const most = 9
	if r.Receipt.Explain == nil && len(r.Denials) == 0 || r.Code == 0 {
		return nil
	}
	return refusedLines(r, most)
}

// refusedLines are the lines on the last refusals of a result that has them, and on what is not known. Each is one line, whatever is in the result.
func refusedLines(r result.Result, most int) (lines []string) {
	for i, d := range r.Denials {
		if i == most {
			lines = append(lines, fmt.Sprintf("refused: %d more, which --result has", len(r.Denials)-most))
			break
		}
		lines = append(lines, "refused: "+deniedLine(d))
	}
	e := r.Receipt.Explain
	switch {
	case e == nil:
	case e.Unavailable != "":
		lines = append(lines, oneLine("refusals are not reported: "+e.Unavailable))
	case e.NotLookedAt > 0 && len(lines) <= most:
		lines = append(lines, fmt.Sprintf("%d calls were not looked at: there were too many at once, or their files could have kept nsrun waiting", e.NotLookedAt))
	}
	return lines
}

// deniedLine is one denial for people.
func deniedLine(d result.Denial) string {
	text := d.Op
	if d.Path != "" {
		text += " " + strconv.Quote(d.Path)
	}
	why, known := map[string]string{"view": "the host has it, the sandbox does not", "read-only": "it is read-only here", "landlock": "nothing grants it",
		"seccomp": "the filter of system calls", "network": "there is no network", "no_new_privs": "set-user-ID programs get no privileges"}[d.Rule]
	if !known {
		why = d.Rule
	}
	if d.Reason != "" {
		why = d.Reason
	}
	switch d.Kind {
	case "secret":
		text, why = d.Op, "a place of keys, whose path is not printed"
	case "limit":
		why = "the limit was reached"
	}
	text += ": " + why
	if d.Count > 1 {
		text += fmt.Sprintf(" (%d times)", d.Count)
	}
	switch {
	case d.Change == nil:
	case oneLine(d.Change.Flag) != d.Change.Flag: // what is printed would be another path
		text += "; its name does not print: what allows it is in the JSON of the result"
	default:
		text += "; allow it with " + d.Change.Flag
	}
	return oneLine(text)
}

// oneLine takes what does not print out of a line: ends of lines, control characters, and what changes the order of characters. Paths, also of
// files that a stranger has made, are in it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
