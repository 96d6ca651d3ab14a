package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
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

// deniedLines are what was refused to a command that failed, the last first.
func deniedLines(r result.Result) (lines []string) {
	const most = 9
	if r.Receipt.Explain == nil || r.Code == 0 {
		return nil
	}
	if why := r.Receipt.Explain.Unavailable; why != "" {
		return []string{"refusals are not reported: " + why}
	}
	for i, d := range r.Denials {
		if i == most {
			lines = append(lines, fmt.Sprintf("refused: %d more, which --result has", len(r.Denials)-most))
			break
		}
		lines = append(lines, "refused: "+deniedLine(d))
	}
	if n := r.Receipt.Explain.NotLookedAt; n > 0 && len(lines) <= most {
		lines = append(lines, fmt.Sprintf("%d calls were not looked at", n))
	}
	return lines
}

// deniedLine is one denial for people.
func deniedLine(d result.Denial) string {
	text := d.Op
	if d.Path != "" {
		text += " " + strconv.Quote(d.Path)
	}
	why := map[string]string{"view": "the host has it, the sandbox does not", "read-only": "it is read-only here", "landlock": "nothing grants it",
		"seccomp": "the filter of system calls", "network": "there is no network", "no_new_privs": "set-user-ID programs get no privileges"}[d.Rule]
	if d.Kind == "secret" {
		text, why = d.Op, "a place of keys, whose path is not printed"
	}
	text += ": " + why
	if d.Count > 1 {
		text += fmt.Sprintf(" (%d times)", d.Count)
	}
	if d.Change != nil {
		text += "; allow it with " + d.Change.Flag
	}
	return text
}
