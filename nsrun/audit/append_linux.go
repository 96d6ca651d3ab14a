package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/fault"
	"golang.org/x/sys/unix"
)

// Start appends the row that a run begins, and returns when it is on the disk. Before it come the ends of those runs that have died without
// one. Secrets in the words of s are replaced. An error is a [*fault.Error], and the run must not begin: End tells what became of it.
func (l *Log) Start(s Start) error {
	if l.id != "" {
		return l.fail(errors.New("bug: the run has started already"))
	}
	argv := make([]string, len(s.Argv))
	for i, w := range s.Argv {
		argv[i] = string(w)
	}
	argv, redacted := Redact(argv)
	s.Argv = Texts(argv)
	s.Labels = maps.Clone(s.Labels)
	for name, value := range s.Labels {
		text, more := redactText(name + "=" + string(value))
		s.Labels[name] = Text(strings.TrimPrefix(text, name+"="))
		redacted += more
	}
	if s.Env == nil {
		s.Env = []Text{}
	}
	random := make([]byte, 8)
	if _, err := unix.Getrandom(random, 0); err != nil { // crypto/rand would cost every start of the program its packages
		return l.fail(err)
	}
	id := hex.EncodeToString(random)
	err := l.append(func(b *batch) error {
		if err := b.buryDead(l); err != nil {
			return err
		}
		slot, err := l.freeSlot(b.open)
		if err != nil {
			return err
		}
		s.Slot = slot
		b.open = append(slices.Clone(b.open), Run{id, slot})
		return b.add(Row{Kind: startKind, ID: id, Start: &s, Redacted: redacted})
	})
	if err != nil {
		return err
	}
	l.id = id
	return l.sync()
}

// Started reports whether there is a row of the run's start, which wants an end.
func (l *Log) Started() bool { return l.id != "" }

// End appends the run's last row, and returns when it is on the disk. An error is a [*fault.Error]; the next start tells the run as aborted then.
func (l *Log) End(e End) error {
	if l.id == "" {
		return l.fail(errors.New("bug: the run has not started"))
	}
	n := 0
	clean := func(t Text) Text {
		s, more := redactText(string(t))
		n += more
		return Text(s)
	}
	e.Error = clean(e.Error)
	notes := make([]Text, len(e.Notes))
	for i, t := range e.Notes {
		notes[i] = clean(t)
	}
	if e.Notes = notes; e.Denials == nil {
		e.Denials = []json.RawMessage{}
	}
	err := l.append(func(b *batch) error {
		if !b.close(l.id) {
			return errors.New("the run is not open in it: somebody has changed it, or recorded the run as aborted")
		}
		return b.add(Row{Kind: endKind, ID: l.id, End: &e, Redacted: n})
	})
	if err != nil {
		return err
	}
	return l.sync()
}

func (l *Log) fail(err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	hint := openHint(err)
	if errors.Is(err, errBusy) {
		hint = busyHint
	}
	return &fault.Error{Path: l.path, Err: err, Hint: hint}
}

func (l *Log) sync() error {
	_, err := ignoring(func() (int, error) { return 0, unix.Fdatasync(l.fd()) })
	return l.fail(err)
}

// freeSlot locks the first slot that no open run has.
func (l *Log) freeSlot(open []Run) (int, error) {
	if len(open) >= maxOpen {
		return 0, fmt.Errorf("%d runs are open in it, and there can be no more", len(open))
	}
	for slot := range slots {
		if slices.ContainsFunc(open, func(r Run) bool { return r.Slot == slot }) {
			continue
		}
		if ok, err := l.takeSlot(slot); ok || err != nil {
			return slot, err
		}
	}
	return 0, errors.New("all its locks are taken")
}

// batch is rows that are appended in one piece.
type batch struct {
	lines bytes.Buffer
	prev  string
	open  []Run
	now   string
}

// append adds what fill gives, all of it or nothing. Nobody else appends meanwhile.
func (l *Log) append(fill func(*batch) error) error {
	if err := l.lock(unix.F_WRLCK); err != nil {
		return l.fail(err)
	}
	defer l.unlock()
	t, err := l.tail()
	if err != nil {
		return l.fail(err)
	}
	b := &batch{prev: t.prev, open: t.open, now: time.Now().UTC().Format(time.RFC3339Nano)}
	if t.ragged {
		b.lines.WriteByte('\n') // what a crash has left of a line ends here; nothing of it is changed
	}
	if t.torn != nil {
		err = b.add(Row{Kind: tornKind, Torn: t.torn})
	}
	if err == nil {
		err = fill(b)
	}
	if err == nil {
		err = l.write(b.lines.Bytes(), t.size)
	}
	return l.fail(err)
}

// write appends, in one call as a rule. What was written when that fails is taken back, so that a full disk leaves no half row.
func (l *Log) write(data []byte, size int64) error {
	if _, err := l.file.Write(data); err != nil {
		return errors.Join(errors.Unwrap(err), errors.Unwrap(l.file.Truncate(size))) // without the name, which l.fail adds
	}
	return nil
}

func (b *batch) add(r Row) error {
	r.Version, r.Prev, r.Time, r.Open = Version, b.prev, b.now, b.open
	if r.Open == nil {
		r.Open = []Run{}
	}
	line, err := encode(r)
	if err != nil {
		return err
	}
	b.prev = hash(line)
	b.lines.Write(line)
	b.lines.WriteByte('\n')
	return nil
}

// close takes a run out of those that are open.
func (b *batch) close(id string) bool {
	rest := slices.DeleteFunc(slices.Clone(b.open), func(r Run) bool { return r.ID == id })
	found := len(rest) < len(b.open)
	b.open = rest
	return found
}

// buryDead ends the runs whose process is gone.
func (b *batch) buryDead(l *Log) error {
	for _, r := range b.open {
		alive, err := l.alive(r.Slot)
		if err != nil {
			return err
		}
		if alive {
			continue
		}
		b.close(r.ID)
		if err := b.add(Row{Kind: endKind, ID: r.ID, End: &End{Verdict: Aborted, Notes: []Text{}, Denials: []json.RawMessage{}}}); err != nil {
			return err
		}
	}
	return nil
}
