package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Version is the version of the format. It stands in magic too.
const Version = 1

// magic begins each row. A file that begins otherwise is not a log, and nothing is appended to it.
const magic = `{"nsrun_audit":1,`

// Genesis is what stands for the hash of the line before the first one.
const Genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// The kinds of rows.
const (
	startKind = "start"
	endKind   = "end"
	tornKind  = "torn" // tells of a line that is no row, as a crash in the middle of writing leaves one
)

// Aborted is the verdict of a run whose process has died without a word. The next start gives it.
const Aborted = "aborted"

// Row is one line.
type Row struct {
	Version int    `json:"nsrun_audit"`
	Kind    string `json:"row"`
	Prev    string `json:"prev"` // SHA-256 of the line before, without its newline
	ID      string `json:"id,omitempty"`
	Time    string `json:"time"` // RFC 3339, UTC
	*Start
	*End
	*Torn
	Redacted int      `json:"redacted,omitempty"` // how many secrets were replaced
	Cut      []string `json:"cut,omitempty"`      // fields that were shortened or left out, as the row was too long
	Open     []Run    `json:"open"`               // the runs that have no end yet
}

// Start is what a run's first row tells.
type Start struct {
	Slot           int    `json:"slot"`
	Argv           []Text `json:"argv"`
	ArgvCut        bool   `json:"argv_cut,omitempty"`
	ArgvWords      int    `json:"argv_words,omitempty"` // how many there were, if they were cut
	Cwd            Text   `json:"cwd"`
	Policy         Text   `json:"policy,omitempty"`          // its name
	ManifestSHA256 string `json:"manifest_sha256,omitempty"` // of the file's bytes
	Env            []Text `json:"env"`                       // names, never values
	Backend        string `json:"backend,omitempty"`         // none was chosen if the run was refused
	// Labels are the caller's own words, by name.
	Labels map[string]Text `json:"labels,omitempty"`
}

// End is what a run's last row tells.
type End struct {
	Verdict   string            `json:"verdict"`
	Code      *int              `json:"exit_code,omitempty"` // nobody knows that of an aborted run
	Signal    string            `json:"signal,omitempty"`
	Error     Text              `json:"error,omitempty"`
	WallMS    float64           `json:"wall_ms"`
	UserMS    float64           `json:"user_ms"`
	SystemMS  float64           `json:"system_ms"`
	MaxRSSKiB int64             `json:"max_rss_kib"`
	Receipt   json.RawMessage   `json:"receipt,omitempty"`
	Notes     []Text            `json:"notes"`
	Denials   []json.RawMessage `json:"denials"` // what was refused, as the result has it, if the policy asks for that
}

// Torn is what is told of a line that is no row.
type Torn struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Run is a run that has no end yet, and the byte that its process keeps locked.
type Run struct {
	ID   string `json:"id"`
	Slot int    `json:"slot"`
}

// ParseRow reads a line.
func ParseRow(line []byte) (Row, error) {
	var r Row
	if !strings.HasPrefix(string(line), magic) {
		return r, errors.New("it does not begin with " + magic)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	ok := map[string]bool{startKind: r.Start != nil && r.ID != "", endKind: r.End != nil && r.ID != "", tornKind: r.Torn != nil}
	if !ok[r.Kind] {
		return r, fmt.Errorf("the row %q lacks what such rows have", r.Kind)
	}
	return r, nil
}

// hash is the SHA-256 of a line.
func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
