package audit

import (
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"
)

// MaxRow is the longest line that is written, its newline included.
const MaxRow = 64 << 10

// maxOpen is how many runs can be open at once in one log: their list must leave room in a row for everything else.
const maxOpen = 1024

// Bounds on parts of a row that is too long.
const (
	cutArgv  = 8 << 10 // all words together, as they are written
	cutNames = 4 << 10
	cutDeny  = 8 << 10 // all denials together
	cutText  = 1 << 10 // any other text
)

// encode gives the row's line, without a newline. What is too long is cut, part by part, until it fits.
func encode(r Row) ([]byte, error) {
	for _, cut := range []func(*Row){func(*Row) {}, cutStart, cutDenials, cutEnd} {
		cut(&r)
		data, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if data = Armor(data); len(data) < MaxRow {
			return data, nil
		}
	}
	return nil, errors.New("bug: the row is too long, whatever is cut")
}

// cutStart shortens what a caller has made long.
func cutStart(r *Row) {
	if r.Start == nil {
		return
	}
	s := *r.Start
	if kept := upTo(s.Argv, cutArgv); !slices.Equal(kept, s.Argv) {
		s.Argv, s.ArgvCut, s.ArgvWords = kept, true, len(s.Argv)
		r.Cut = append(r.Cut, "argv")
	}
	if kept := upTo(s.Env, cutNames); !slices.Equal(kept, s.Env) {
		s.Env = kept
		r.Cut = append(r.Cut, "env")
	}
	cutOne(r, "cwd", &s.Cwd)
	cutOne(r, "policy", &s.Policy)
	r.Start = &s
}

// cutDenials keeps the first denials, the likeliest causes of a failure. The receipt, which says what was in force, can stay then.
func cutDenials(r *Row) {
	if r.End == nil {
		return
	}
	e := *r.End
	room := cutDeny
	for i, d := range e.Denials {
		if room -= len(Armor(d)) + 1; room < 0 {
			e.Denials = e.Denials[:i:i]
			r.Cut = append(r.Cut, "denials")
			break
		}
	}
	r.End = &e
}

// cutEnd leaves out what is long of an end.
func cutEnd(r *Row) {
	if r.End == nil {
		return
	}
	e := *r.End
	cutOne(r, "error", &e.Error)
	if e.Receipt != nil {
		e.Receipt = nil
		r.Cut = append(r.Cut, "receipt")
	}
	if len(e.Notes) > 0 {
		e.Notes = []Text{}
		r.Cut = append(r.Cut, "notes")
	}
	r.End = &e
}

func cutOne(r *Row, name string, t *Text) {
	if kept, cut := clip(*t, cutText); cut {
		*t = kept
		r.Cut = append(r.Cut, name)
	}
}

// upTo keeps the first words whose lines come to at most so many bytes; the last one may be a part.
func upTo(words []Text, most int) []Text {
	for i, w := range words {
		kept, cut := clip(w, most)
		if cut {
			return append(slices.Clone(words[:i]), kept)
		}
		if most -= size(w) + 1; most <= 0 {
			return words[:i+1]
		}
	}
	return words
}

// clip cuts a text to one that takes at most so many bytes as it is written.
func clip(t Text, most int) (Text, bool) {
	if size(t) <= most {
		return t, false
	}
	whole := utf8.ValidString(string(t))
	kept := t[:min(len(t), most)]
	for {
		for whole && !utf8.ValidString(string(kept)) { // not in the middle of a character
			kept = kept[:len(kept)-1]
		}
		if size(kept) <= most || len(kept) == 0 {
			return kept, true
		}
		kept = kept[:len(kept)*3/4]
	}
}

// size is how many bytes a text takes as it is written.
func size(t Text) int {
	data, _ := t.MarshalJSON() // which fails for no text
	return len(Armor(data))
}
