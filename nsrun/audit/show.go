package audit

import (
	"io"
	"slices"
	"strings"
	"time"
)

// RunRows is a run as its rows tell of it. End is nil for one that has none yet.
type RunRows struct {
	Start, End         *Row
	StartLine, EndLine []byte
}

// Running stands for the verdict of a run that has no end yet.
const Running = "running"

// Failed stands for all verdicts but ok.
const Failed = "failed"

// Verdict is how the run ended.
func (t RunRows) Verdict() string {
	if t.End == nil {
		return Running
	}
	return t.End.Verdict
}

// Command is the words of the run's command, for a terminal.
func (t RunRows) Command() string {
	words := make([]string, len(t.Start.Argv))
	for i, w := range t.Start.Argv {
		words[i] = Plain(w)
		if w == "" || strings.ContainsAny(words[i], " \t\"") {
			words[i] = `"` + strings.ReplaceAll(words[i], `"`, `\"`) + `"`
		}
	}
	if t.Start.ArgvCut {
		words = append(words, "...")
	}
	return strings.Join(words, " ")
}

// Filter says which runs to tell of. The zero value tells of all.
type Filter struct {
	Since    time.Time         // started then or later
	Verdicts []string          // one of them; [Failed] is all but ok and [Running]
	Command  string            // stands somewhere in [RunRows.Command]
	Labels   map[string]string // all of them are among the run's
}

func (f Filter) passes(t RunRows) bool {
	if !f.Since.IsZero() {
		at, err := time.Parse(time.RFC3339Nano, t.Start.Time)
		if err != nil || at.Before(f.Since) {
			return false
		}
	}
	for name, value := range f.Labels {
		if got, ok := t.Start.Labels[name]; !ok || string(got) != value {
			return false
		}
	}
	return f.verdict(t.Verdict()) && strings.Contains(t.Command(), f.Command)
}

func (f Filter) verdict(v string) bool {
	failed := v != "ok" && v != Running
	return len(f.Verdicts) == 0 || slices.Contains(f.Verdicts, v) || failed && slices.Contains(f.Verdicts, Failed)
}

// Runs reads a log to its end and tells of the runs that pass: of each when its end comes, and last of those that have none. It trusts what
// it reads: see [Verify]. Damaged is the number of lines that are no rows; they are passed over.
func Runs(r io.Reader, f Filter, each func(RunRows) error) (damaged int, err error) {
	open := map[string]RunRows{}
	var order []string
	err = eachLine(r, func(line []byte, _ bool) error {
		row, err := ParseRow(line)
		if err != nil {
			damaged++
			return nil
		}
		line = Armor(line)
		switch row.Kind {
		case startKind:
			if _, again := open[row.ID]; !again {
				order = append(order, row.ID)
			}
			open[row.ID] = RunRows{Start: &row, StartLine: line}
		case endKind:
			t, known := open[row.ID]
			if !known {
				damaged++
				return nil
			}
			delete(open, row.ID)
			order = slices.DeleteFunc(order, func(id string) bool { return id == row.ID })
			if t.End, t.EndLine = &row, line; f.passes(t) {
				return each(t)
			}
		}
		return nil
	})
	for _, id := range order {
		if t := open[id]; err == nil && f.passes(t) {
			err = each(t)
		}
	}
	return damaged, err
}
