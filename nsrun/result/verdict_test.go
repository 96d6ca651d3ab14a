package result

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestVerdictTable: every verdict has one row, in order, and the codes that nsrun itself exits with are those of the constants.
func TestVerdictTable(t *testing.T) {
	own := map[Verdict]int{Timeout: CodeTimeout, Setup: CodeFailed, Refused: CodeFailed, NotExecutable: CodeNotExecutable, NotFound: CodeNotFound, Lost: CodeLost}
	var all []Verdict
	for _, row := range VerdictTable {
		all = append(all, row.Verdict)
		assert.NotEmpty(t, row.Evidence, row.Verdict)
		if code, ok := own[row.Verdict]; ok {
			assert.Equal(t, strconv.Itoa(code), row.Code, row.Verdict)
			delete(own, row.Verdict)
		}
	}
	assert.Equal(t, Verdicts, all)
	assert.Empty(t, own, "each has a row")
}
