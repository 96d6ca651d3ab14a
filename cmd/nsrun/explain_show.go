package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/audit"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/result"
)

const explainHelp = `nsrun explain [--json] FILE     print what the result of a run says was refused, and what would allow it

FILE is what --result of run has written, an answer of nsrun session that holds a result, or the row of a run's
end in an audit log; - is standard input. It holds one of them. All refusals are printed, the last first, in
the words that run --explain has on stderr, and then what is not known. A result of a run without --explain
has none. What prints no character is printed as ?, or escaped; --json has the names as they are, if UTF-8.

FLAGS
Exit codes: 0; 125 FILE cannot be read, or is no result.

Examples:
  nsrun run --explain --result result.json --workspace . -- make test
  nsrun explain result.json
  nsrun audit show --json --label task=17 audit.jsonl | tail -n 1 | nsrun explain -
`

// explainFlags are those of explain.
type explainFlags struct{ asJSON bool }

func (f *explainFlags) rows() []flagRow {
	return []flagRow{{"--json", &f.asJSON, "print one line of JSON", ""}}
}

// maxResult is the size of the largest result that is read: denials have at most 2 MiB of paths, and a session's output 1 MiB of each stream, if
// nobody asks for more. JSON can make six bytes of one.
const maxResult = 32 << 20

// explanation is what explain --json prints.
type explanation struct {
	Verdict result.Verdict    `json:"verdict"`
	Code    int               `json:"code"`
	Error   string            `json:"error,omitempty"`
	Hint    string            `json:"hint,omitempty"`
	Explain *result.Explained `json:"explain,omitempty"`
	// Unknown says why nothing is known about refusals.
	Unknown string          `json:"unknown,omitempty"`
	Denials []result.Denial `json:"denials"`
}

// explain prints what a result has about refusals.
func (a *app) explain(args []string) int {
	var f explainFlags
	fs := newFlags("explain", f.rows()...)
	err := a.parse(fs, args)
	name := fs.Arg(0)
	if err == nil && fs.NArg() > 1 { // flags may stand behind the file, too
		err = a.parse(fs, fs.Args()[1:])
		if err == nil && fs.NArg() > 0 {
			name = ""
		}
	}
	if err == nil && name == "" {
		err = errors.New("write nsrun explain [--json] FILE, or - for standard input")
	}
	if err != nil {
		return a.fail(err)
	}
	data, err := readResult(name)
	if err != nil {
		return a.fail(err)
	}
	r, unknown, err := parseResult(data)
	if err != nil {
		if name == "-" {
			name = "standard input"
		}
		return a.fail(fmt.Errorf("%s: %w", name, err))
	}
	if f.asJSON {
		all := explanation{r.Verdict, r.Code, r.Error, r.Hint, r.Receipt.Explain, unknown, r.Denials}
		if all.Denials == nil {
			all.Denials = []result.Denial{}
		}
		line, err := json.Marshal(all)
		return a.printed(string(audit.Armor(line))+"\n", err)
	}
	return a.print(strings.Join(explainedLines(r, unknown), "\n") + "\n")
}

// readResult reads a file, or standard input.
func readResult(name string) ([]byte, error) {
	if name != "-" {
		data, err := load.File(name, maxResult)
		if err != nil {
			err = fmt.Errorf("%w; name the file that nsrun run --explain --result FILE has written, or - for standard input", err)
		}
		return data, err
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, maxResult+1))
	if err == nil && len(data) > maxResult {
		err = fmt.Errorf("standard input is longer than %d bytes; give it one result", maxResult)
	}
	return data, err
}

// parseResult reads a result, by itself, in a session's answer, or as an audit log has it. unknown says why it has nothing on refusals.
func parseResult(data []byte) (r result.Result, unknown string, err error) {
	var form struct {
		Audit   int              `json:"nsrun_audit"`
		Version int              `json:"version"`
		OK      *json.RawMessage `json:"ok"`
	}
	const fix = "give one that nsrun run --explain --result FILE has written"
	if len(bytes.TrimSpace(data)) == 0 {
		return r, "", fmt.Errorf("it is empty: the run goes on, or its nsrun was killed; %s", fix)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	var one json.RawMessage
	if err = d.Decode(&one); err == nil {
		err = json.Unmarshal(one, &form)
	}
	switch {
	case err != nil:
		return r, "", fmt.Errorf("it is no JSON of a result; %s", fix)
	case len(bytes.TrimSpace(data[d.InputOffset():])) > 0:
		return r, "", errors.New("there is more behind the first result; give one result, such as one line")
	case form.Audit != 0:
		return auditedResult(bytes.TrimSpace(one))
	case form.OK != nil:
		one = *form.OK
	}
	if err := json.Unmarshal(one, &r); err != nil || r.Verdict == "" {
		return r, "", fmt.Errorf("it is no result, which has a verdict; %s", fix)
	}
	if r.Version != 1 {
		return r, "", fmt.Errorf("it is a result of version %d, and this nsrun reads version 1; use the nsrun that has written it", r.Version)
	}
	return r, unknownWhy(r, r.Receipt.Notes), nil
}

// auditedResult is the result that a row of an audit log has.
func auditedResult(line []byte) (r result.Result, unknown string, err error) {
	row, err := audit.ParseRow(line)
	if err != nil {
		return r, "", fmt.Errorf("it is no row of an audit log: %w", err)
	}
	if row.End == nil {
		return r, "", errors.New("it is no row of a run's end; give the row that has a verdict")
	}
	r = result.Result{Version: 1, Verdict: result.Verdict(row.Verdict), Signal: row.Signal, Error: string(row.Error)}
	if r.Code = result.CodeLost; row.Code != nil {
		r.Code = *row.Code
	}
	if row.Receipt != nil {
		err = json.Unmarshal(row.Receipt, &r.Receipt)
	}
	for _, raw := range row.Denials {
		var d result.Denial
		err = errors.Join(err, json.Unmarshal(raw, &d))
		r.Denials = append(r.Denials, d)
	}
	if err != nil {
		return r, "", errors.New("it is no row that nsrun has written: its receipt or its denials cannot be read")
	}
	if slices.Contains(row.Cut, "denials") || slices.Contains(row.Cut, "receipt") {
		return r, "the row was too long for the log, and lacks some of what was refused; --result has all", nil
	}
	var notes []plan.Note
	for _, n := range row.Notes {
		if rest, ok := strings.CutPrefix(string(n), "explain: "); ok {
			notes = append(notes, plan.Note{Feature: "explain", Loss: rest})
		}
	}
	return r, unknownWhy(r, notes), nil
}

// unknownWhy says why a result has nothing on refusals; it is empty if it has.
func unknownWhy(r result.Result, notes []plan.Note) string {
	if r.Receipt.Explain != nil {
		return r.Receipt.Explain.Unavailable
	}
	for _, n := range notes {
		if n.Feature == "explain" {
			return strings.TrimPrefix(strings.TrimPrefix(n.String(), "explain: "), "refusals are not reported: ")
		}
	}
	if r.Code != 0 && !neverRan(r) {
		return "the command failed, and was run without --explain; run it again with --explain"
	}
	return "the command was run without --explain"
}

// neverRan reports whether the command has not run.
func neverRan(r result.Result) bool {
	return slices.Contains([]result.Verdict{result.NotFound, result.NotExecutable, result.Setup, result.Refused}, r.Verdict)
}

// explainedLines are what explain prints.
func explainedLines(r result.Result, unknown string) []string {
	lines := []string{oneLine(fmt.Sprintf("%s, exit code %d", r.Verdict, r.Code))}
	if r.Error != "" {
		lines = append(lines, oneLine("error: "+strings.ReplaceAll(strings.TrimSpace(r.Error), "\n", "; ")))
	}
	if r.Hint != "" {
		lines = append(lines, oneLine("hint: "+r.Hint))
	}
	if neverRan(r) {
		return append(lines, "the command has not run, so nothing was refused to it")
	}
	lines = append(lines, refusedLines(r, len(r.Denials))...)
	switch e := r.Receipt.Explain; {
	case e != nil && e.Unavailable != "": // refusedLines says so
	case unknown != "" && (e != nil || len(r.Denials) > 0):
		lines = append(lines, oneLine("not all is known: "+unknown))
	case unknown != "":
		lines = append(lines, oneLine("refusals are not known: "+unknown))
	case len(r.Denials) == 0 && e.Level == "all":
		lines = append(lines, "nothing was refused that --explain=all watches")
	case len(r.Denials) == 0:
		lines = append(lines, "nothing was refused that --explain watches; --explain=all watches looking at files, too")
	}
	return lines
}
