package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/audit"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// auditRefused tells the logs that flag and environment name of a run that was refused before its policy was known. That of a manifest is
// not: it could not be read, or permits what it does not mean. Nor is that of the flag if it is the reason.
func (f *flags) auditRefused(command []string, err error) error {
	var pol policy.Policy
	names := []string{os.Getenv(load.AuditVariable)}
	if !errors.Is(err, policy.ErrAudit) {
		names = append(names, f.audit)
	}
	for _, name := range names {
		if abs, absErr := absolute(name); absErr == nil {
			pol.Audit = append(pol.Audit, abs)
		}
	}
	if len(pol.Audit) == 0 {
		return err
	}
	for _, l := range f.labels {
		v, bad := parseLabel(l)
		if all, more := policy.WithLabels(pol.Labels, v); bad == nil && more == nil { // what is wrong with others may be the reason
			pol.Labels = all
		}
	}
	return runner.AuditRefused(pol, command, err)
}

// auditFlags are those of audit show.
type auditFlags struct {
	since, command string
	verdicts       stringList
	labels         stringList
	asJSON         bool
	markRows, head string // of verify
}

// ofVerify reports whether a flag is one of verify; the others are those of show.
func ofVerify(name string) bool { return name == "rows" || name == "head" }

// mark gives what --rows and --head note of a log.
func (f *auditFlags) mark(fs *flag.FlagSet) ([]audit.Mark, error) {
	if fs.NFlag() == 0 {
		return nil, nil
	}
	rows, err := strconv.Atoi(f.markRows)
	m := audit.Mark{Rows: rows, Head: strings.ToLower(f.head)}
	if err != nil || m.Rows < 0 || m.Rows == 0 && m.Head != audit.Genesis || len(m.Head) != len(audit.Genesis) || strings.Trim(m.Head, "0123456789abcdef") != "" {
		return nil, errors.New("write --rows N --head HASH, both as nsrun audit verify has printed them")
	}
	return []audit.Mark{m}, nil
}

func (f *auditFlags) rows() []flagRow {
	return []flagRow{
		{"--since WHEN", &f.since, "runs that began since then: 24h (ago), 2026-01-31, 2026-01-31T12:00:00Z", ""},
		{"--verdict WORD", &f.verdicts, "runs that ended so: ok, exit, timeout, policy, ..., aborted; running; failed, which is all but ok (repeat)", ""},
		{"--command TEXT", &f.command, "runs in whose command TEXT stands", ""},
		{"--label NAME=VALUE", &f.labels, "runs with that label (repeat for more that must be there)", ""},
		{"--json", &f.asJSON, "print their rows as they are", ""},
		{"--rows N", &f.markRows, "for verify, with --head: the number of rows that it has printed before", ""},
		{"--head HASH", &f.head, "the hash that it has printed with it", ""},
	}
}

// audit reads logs: what they tell, and whether they are whole.
func (a *app) audit(args []string) int {
	word, args := wordFirst(args)
	var f auditFlags
	fs := newFlags("audit", f.rows()...)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	name := fs.Arg(0)
	if fs.NArg() > 1 { // flags may stand behind the file too
		if err := a.parse(fs, fs.Args()[1:]); err != nil {
			return a.fail(err)
		}
		args = append(fs.Args(), name)
	} else {
		args = fs.Args()
	}
	wrong := len(args) != 1 || word != "show" && word != "verify"
	fs.Visit(func(g *flag.Flag) { wrong = wrong || ofVerify(g.Name) != (word == "verify") })
	if wrong {
		return a.fail(errors.New("write nsrun audit show [flags] FILE, or nsrun audit verify [--rows N --head HASH] FILE"))
	}
	if word == "show" {
		return a.auditShow(&f, name)
	}
	marks, err := f.mark(fs)
	if err != nil {
		return a.fail(err)
	}
	return a.auditVerify(name, marks)
}

func (a *app) auditVerify(name string, marks []audit.Mark) int {
	log, err := audit.Read(name)
	if err != nil {
		return a.fail(err)
	}
	defer log.Close()
	report, err := audit.Verify(log, marks...)
	if err != nil {
		return a.fail(err)
	}
	text, code := fmt.Sprintf("%s: ok\n", name), 0
	if report.Fault != nil {
		text, code = fmt.Sprintf("%s: line %d: %v\n", name, report.Line, report.Fault), 1
	}
	text += fmt.Sprintf("rows %d, open runs %d, head %s\n", report.Rows, len(report.Open), report.Head)
	switch {
	case report.Fault == nil && marks != nil:
		text += fmt.Sprintf("all %d rows that were noted are there\n", marks[0].Rows)
	case report.Fault == nil:
		text += "rows cut off at the end leave no trace: compare rows and head with those that were kept elsewhere, with --rows and --head\n"
	}
	if failed := a.print(printable(text)); failed != 0 {
		return failed
	}
	return code
}

// auditShow prints the runs that pass, one a line, or their rows.
func (a *app) auditShow(f *auditFlags, name string) int {
	filter := audit.Filter{Verdicts: f.verdicts, Command: f.command, Labels: map[string]string{}}
	for _, l := range f.labels {
		v, err := parseLabel(l)
		if err != nil {
			return a.fail(badLabel(l, err))
		}
		filter.Labels[v.Name] = v.Value
	}
	err := knownVerdicts(f.verdicts)
	if err != nil {
		return a.fail(err)
	}
	if filter.Since, err = since(f.since, time.Now()); err != nil {
		return a.fail(err)
	}
	log, err := audit.Read(name)
	if err != nil {
		return a.fail(err)
	}
	defer log.Close()
	each := a.auditTable
	if f.asJSON {
		each = a.auditRows
	} else if failed := a.print(fmt.Sprintf(auditColumns, "STARTED", "VERDICT", "CODE", "MS", "BACKEND", "COMMAND")); failed != 0 {
		return failed
	}
	damaged, err := audit.Runs(log, filter, each)
	if err != nil {
		return a.fail(err)
	}
	if damaged > 0 {
		fmt.Fprintf(a.stderr, "nsrun: note: %s: %d lines are no rows of a run: nsrun audit verify says more\n", printable(name), damaged)
		return 1
	}
	return 0
}

const auditColumns = "%-20s  %-14s  %4s  %9s  %-8s  %s\n"

func (a *app) auditTable(t audit.RunRows) error {
	code, wall := "-", "-"
	if t.End != nil && t.End.Code != nil {
		code, wall = fmt.Sprint(*t.End.Code), fmt.Sprintf("%.1f", t.End.WallMS)
	}
	at := t.Start.Time
	if begun, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = begun.UTC().Format(time.RFC3339)
	}
	plain := func(s string) string { return audit.Plain(audit.Text(s)) }
	_, err := fmt.Fprintf(a.stdout, auditColumns, plain(at), plain(t.Verdict()), code, wall, plain(t.Start.Backend), t.Command())
	return err
}

func (a *app) auditRows(t audit.RunRows) error {
	_, err := fmt.Fprintf(a.stdout, "%s\n", t.StartLine)
	if err == nil && t.End != nil {
		_, err = fmt.Fprintf(a.stdout, "%s\n", t.EndLine)
	}
	return err
}

// since reads a time, a day, or how long ago.
func since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %s: write how long ago, as in 24h, or a day or time (UTC) as in 2026-01-31 or 2026-01-31T12:00:00Z", text)
}

// knownVerdicts refuses words that no run ends with: an empty table would read as if there were none.
func knownVerdicts(words []string) error {
	known := []string{audit.Failed, audit.Running, audit.Aborted}
	for _, v := range result.Verdicts {
		known = append(known, string(v))
	}
	for _, w := range words {
		if !slices.Contains(known, w) {
			return fmt.Errorf("--verdict %s: use one of %s; repeat it for more", w, strings.Join(known, ", "))
		}
	}
	return nil
}
