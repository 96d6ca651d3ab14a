package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/audit"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// record writes one run to the audit logs of a policy, of which there may be none.
type record struct {
	spec   policy.Policy
	logs   []*audit.Log
	labels map[string]audit.Text
	begun  bool
}

// auditStage is the stage of errors that keep a run from being logged. No such run begins.
const auditStage = "audit"

func auditError(op string, err error) error {
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Stage, failed.Op = auditStage, op
		return failed
	}
	return &Error{Stage: auditStage, Op: op, Err: err}
}

// openRecord opens the policy's logs, each file once, whatever it is called. labels are NAME=value, besides the policy's.
func openRecord(spec policy.Policy, labels ...string) (*record, error) {
	all, err := labelled(spec, labels)
	if err != nil {
		return nil, err
	}
	r := &record{spec: spec, labels: all}
	for _, name := range spec.Audit {
		log, err := audit.Open(name)
		if err != nil {
			r.close()
			return nil, auditError("open", err)
		}
		if slices.ContainsFunc(r.logs, log.Same) {
			log.Close()
			continue
		}
		r.logs = append(r.logs, log)
	}
	return r, nil
}

// labelled are the labels of a policy and those of one command.
func labelled(spec policy.Policy, labels []string) (map[string]audit.Text, error) {
	more := make([]policy.Var, len(labels))
	for i, l := range labels {
		name, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, &policy.Fault{Field: "labels", Text: fmt.Sprintf("%q has no value", l), Fix: "write NAME=value"}
		}
		more[i] = policy.Var{Name: name, Value: value}
	}
	vars, err := policy.WithLabels(spec.Labels, more...)
	if err != nil {
		return nil, &policy.Fault{Field: "labels", Text: err.Error(), Fix: "correct it, or leave it out"}
	}
	all := map[string]audit.Text{}
	for _, l := range vars {
		all[l.Name] = audit.Text(l.Value)
	}
	return all, nil
}

func (r *record) close() {
	for _, log := range r.logs {
		log.Close()
	}
}

// real is the policy with the logs' real paths besides: by them the backend finds mounts that must not show them, and by the names that are
// given the plan covers them where a directory is granted by the same symlink.
func (r *record) real(spec policy.Policy) policy.Policy {
	spec.Audit = slices.Clone(spec.Audit)
	for _, log := range r.logs {
		if !slices.Contains(spec.Audit, log.Path()) {
			spec.Audit = append(spec.Audit, log.Path())
		}
	}
	return spec
}

// files returns the open log files.
func (r *record) files() (all []os.FileInfo, err error) {
	for _, log := range r.logs {
		info, err := log.Info()
		if err != nil {
			return nil, &Error{Stage: auditStage, Op: "look at", Path: log.Path(), Err: err}
		}
		all = append(all, info)
	}
	return all, nil
}

// record opens the logs of one command. Its sandbox covers those files that were there when it was made: one that has taken the place of such
// a file would be shown.
func (s *Session) record(labels []string) (*record, error) {
	r, err := openRecord(s.spec, labels...)
	if err != nil || !s.plan.CoversLogs() {
		return r, err
	}
	files, err := r.files()
	for i, info := range files {
		if !slices.ContainsFunc(s.logs, func(old os.FileInfo) bool { return os.SameFile(old, info) }) {
			err = &Error{Stage: auditStage, Op: "open", Path: r.logs[i].Path(), Err: errors.New("it is another file than when the session was opened, and would be shown to it"),
				Hint: "open a new session, or keep logs out of what is granted"}
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// begin writes the row of the start, once, before anything runs.
func (r *record) begin(argv []string, dir string, env []string, backend string) error {
	if len(r.logs) == 0 || r.begun {
		return nil
	}
	r.begun = true
	names := make([]string, len(env))
	for i, v := range env {
		names[i], _, _ = strings.Cut(v, "=")
	}
	for _, log := range r.logs {
		err := log.Start(audit.Start{Argv: audit.Texts(argv), Cwd: audit.Text(dir), Policy: audit.Text(r.spec.Name), ManifestSHA256: r.spec.ManifestSHA256,
			Env: audit.Texts(names), Backend: backend, Labels: r.labels})
		if err != nil {
			return auditError("write", err)
		}
	}
	return nil
}

// finish writes the row of the end and closes the logs. A failed write becomes a note: the command has already run.
func (r *record) finish(end result.Result) (notes []plan.Note) {
	if len(r.logs) == 0 {
		return nil
	}
	defer r.close()
	receipt := end.Receipt
	receipt.Notes = nil // they have a place of their own
	data, _ := json.Marshal(receipt)
	words := []audit.Text{}
	for _, n := range end.Receipt.Notes {
		words = append(words, audit.Text(n.String()))
	}
	denials := deniedRows(end.Denials)
	for _, log := range r.logs {
		if !log.Started() {
			continue
		}
		err := log.End(audit.End{Verdict: string(end.Verdict), Code: &end.Code, Signal: end.Signal, Error: audit.Text(end.Error),
			WallMS: end.WallMS, UserMS: end.UserMS, SystemMS: end.SystemMS, MaxRSSKiB: end.MaxRSSKiB, Receipt: data, Notes: words, Denials: denials})
		if err != nil {
			notes = append(notes, plan.Note{Feature: auditStage, Loss: "the end of the run could not be written: " + err.Error(),
				Fix: "the next run records this one as aborted"})
		}
	}
	return notes
}

// deniedRows are denials as a row has them. A path that looks like a secret is replaced, as in the command's words, and nothing names it.
func deniedRows(all []result.Denial) (rows []json.RawMessage) {
	for _, d := range all {
		if paths, n := audit.Redact([]string{d.Path, d.Host}); n > 0 {
			d.Path, d.Host, d.Change = paths[0], paths[1], nil
		}
		if row, err := json.Marshal(d); err == nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// refused writes both rows of a run that did not begin, unless it has its first one, and returns err with what could not be written.
func (r *record) refused(argv []string, dir string, end result.Result, err error) error {
	first := r.begin(argv, dir, nil, "")
	for _, n := range r.finish(end) {
		err = errors.Join(err, errors.New(n.String()))
	}
	if first != nil {
		err = errors.Join(err, first)
	}
	return err
}

// AuditRefused writes a run that was refused before there was a plan, with the result of [Failure], to a policy's audit logs. It returns err,
// joined with the error of a log that could not be written.
func AuditRefused(p policy.Policy, argv []string, err error) error {
	r, openErr := openRecord(p)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	return r.refused(argv, p.Dir, Failure(err), err)
}

// conclude writes how a command of the library ended, or why it did not begin. cancelled reports that its context has ended.
func (r *record) conclude(argv []string, end *ExecResult, err error, cancelled bool) (*ExecResult, error) {
	if end != nil {
		end.Receipt.Notes = append(slices.Clone(end.Receipt.Notes), r.finish(end.Result)...)
		return end, err
	}
	var refusal *policy.Fault
	var lacks *plan.CompatibilityError
	var failed *Error
	reported := Failure(err)
	switch {
	case errors.As(err, &refusal), errors.As(err, &lacks), errors.As(err, &failed):
	case cancelled:
		reported.Verdict, reported.Code = result.Interrupted, result.CodeFailed
	default:
		reported.Verdict = result.Setup
	}
	return nil, r.refused(argv, r.spec.Dir, reported, err)
}
