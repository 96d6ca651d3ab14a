package audit

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTamperedLogIsFound(t *testing.T) {
	path := newLog(t)
	for i := range 4 {
		require.NoError(t, oneRun(path, "run", strconv.Itoa(i)))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Len(t, lines, 8)
	with := func(change func([]string) []string) string {
		return strings.Join(change(append([]string{}, lines...)), "")
	}
	for _, c := range []struct {
		name, text, says string
		line             int
	}{
		{"edited", strings.Replace(string(data), `["run","1"]`, `["run","7"]`, 1), "does not follow", 4},
		{"first deleted", with(func(l []string) []string { return l[1:] }), "does not follow", 1},
		{"middle deleted", with(func(l []string) []string { return append(l[:3], l[4:]...) }), "does not follow", 4},
		{"swapped", with(func(l []string) []string { l[2], l[4] = l[4], l[2]; return l }), "does not follow", 3},
		{"inserted", with(func(l []string) []string { l[3] += l[3]; return l }), "does not follow", 5},
		{"foreign line", with(func(l []string) []string { l[3] += "hello\n"; return l }), "is no row", 5},
		{"last line edited in its hash", strings.TrimSuffix(string(data), "\n") + " \n", "", 0}, // see below
		{"torn", string(data[:len(data)-10]), "cut short", 8},
	} {
		r, err := Verify(strings.NewReader(c.text))
		require.NoError(t, err, c.name)
		if c.says == "" {
			assert.NoError(t, r.Fault, "nothing follows the last line, so its change shows in the head alone")
			assert.NotEqual(t, mustVerify(t, path).Head, r.Head)
			continue
		}
		assert.ErrorContains(t, r.Fault, c.says, c.name)
		assert.Equal(t, c.line, r.Line, c.name)
	}
	// A chain that was computed anew, with a run taken out, contradicts its own lists.
	first, err := ParseRow([]byte(strings.TrimSuffix(lines[0], "\n")))
	require.NoError(t, err)
	first.Open = []Run{}
	forged, err := encode(first)
	require.NoError(t, err)
	r, err := Verify(bytes.NewReader(append(forged, '\n')))
	require.NoError(t, err)
	assert.ErrorContains(t, r.Fault, "open runs")
	cut, err := Verify(strings.NewReader(strings.Join(lines[:4], "")))
	require.NoError(t, err)
	assert.NoError(t, cut.Fault, "what is cut off at the end cannot be seen")
	assert.NotEqual(t, mustVerify(t, path).Rows, cut.Rows, "but in the number of rows")
}

func TestMarksTellWhatWasCutOff(t *testing.T) {
	path := newLog(t)
	require.NoError(t, oneRun(path, "run", "0"))
	require.NoError(t, oneRun(path, "run", "1"))
	noted := mustVerify(t, path)
	mark := Mark{noted.Rows, noted.Head}
	verify := func(text []byte) Report {
		r, err := Verify(bytes.NewReader(text), mark)
		require.NoError(t, err)
		return r
	}
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return data
	}
	assert.NoError(t, verify(read(path)).Fault)
	old := bytes.SplitAfter(read(path), []byte("\n"))
	cut := bytes.Join(old[:2], nil)
	require.NoError(t, oneRun(path, "run", "2"))
	assert.NoError(t, verify(read(path)).Fault, "the log has grown")

	r := verify(cut)
	assert.ErrorContains(t, r.Fault, "it is not there, and 4 rows were noted")
	assert.Equal(t, 3, r.Line)
	assert.ErrorContains(t, verify(nil).Fault, "it is not there")

	grown := newLog(t) // cut, and grown to what it was, by rows that follow each other
	require.NoError(t, os.WriteFile(grown, cut, 0o600))
	require.NoError(t, oneRun(grown, "run", "x"))
	require.NoError(t, oneRun(grown, "run", "y"))
	mustVerify(t, grown)
	r = verify(read(grown))
	assert.ErrorContains(t, r.Fault, "it is not the row that was noted")
	assert.Equal(t, 4, r.Line)
}
