package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Report is what a look at a whole log comes to.
type Report struct {
	Rows int    // lines, whether they are rows or not
	Head string // SHA-256 of the last line: Genesis if there is none
	Open []Run  // runs without an end
	// Fault is what is wrong with line Line, the first that is; nil if nothing is.
	Fault error
	Line  int
}

// Mark is what was noted of a log at some time, in a place that its writers do not reach: its number of rows, and the hash of the last one.
type Mark struct {
	Rows int
	Head string
}

// Verify reads a log to its end and checks that each line is a row, holds the hash of the line before it, and has in its list of open runs
// those that the rows before say. What was cut off at the end, or computed anew, only marks can tell: the log must begin with all the rows
// that each of them notes. The error is one of reading.
func Verify(r io.Reader, marks ...Mark) (Report, error) {
	report := Report{Head: Genesis}
	err := eachLine(r, func(line []byte, whole bool) error {
		report.Rows++
		if report.Fault == nil {
			if report.Fault = report.check(line, whole); report.Fault != nil {
				report.Line = report.Rows
			}
		}
		report.Head = hash(line)
		report.compare(marks, false)
		return nil
	})
	report.compare(marks, true)
	return report, err
}

// compare holds what has been read against what was noted.
func (r *Report) compare(marks []Mark, end bool) {
	for _, m := range marks {
		switch {
		case r.Fault != nil:
		case m.Rows == r.Rows && m.Head != r.Head:
			r.Line, r.Fault = r.Rows, errors.New("it is not the row that was noted: it, or one before it, was changed, cut off or written anew")
		case end && m.Rows > r.Rows:
			r.Line, r.Fault = r.Rows+1, fmt.Errorf("it is not there, and %d rows were noted: the rest was cut off at the end", m.Rows)
		}
	}
}

// check checks one line and brings the list of open runs up to date.
func (r *Report) check(line []byte, whole bool) error {
	if !whole {
		return errors.New("it is cut short, as by a crash in the middle of writing: it has no newline")
	}
	row, err := ParseRow(line)
	if err != nil {
		return fmt.Errorf("it is no row: %w", err)
	}
	if row.Prev != r.Head {
		return errors.New("it does not follow the line before it: one of the two was changed, or something between them was taken out or put in")
	}
	at := slices.IndexFunc(r.Open, func(o Run) bool { return o.ID == row.ID })
	switch {
	case row.Kind == startKind && at >= 0:
		return fmt.Errorf("the run %s has started already", row.ID)
	case row.Kind == startKind:
		r.Open = append(r.Open, Run{row.ID, row.Slot})
	case row.Kind == endKind && at < 0:
		return fmt.Errorf("the run %s is not open", row.ID)
	case row.Kind == endKind:
		r.Open = slices.Delete(r.Open, at, at+1)
	case row.Kind == tornKind:
		return errors.New("it tells of damage that the rows before it do not show")
	}
	if !slices.Equal(row.Open, r.Open) {
		return errors.New("its list of open runs is not what the rows before say")
	}
	return nil
}

// eachLine calls f for each line, without its newline, and for what follows the last one.
func eachLine(r io.Reader, f func(line []byte, whole bool) error) error {
	in := bufio.NewReaderSize(r, MaxRow)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if text, whole := bytes.CutSuffix(line, []byte("\n")); len(line) > 0 {
			if err := f(text, whole); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}
