package facts

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableRowsAreComplete(t *testing.T) {
	seen := map[Name]bool{}
	for _, row := range Table {
		assert.NotEmpty(t, row.Since, row.Name)
		assert.NotEmpty(t, row.Loss, row.Name)
		assert.NotEmpty(t, row.Fix, row.Name)
		assert.False(t, seen[row.Name], "%s has two rows", row.Name)
		seen[row.Name] = true
		got, ok := Lookup(row.Name)
		require.True(t, ok)
		assert.Equal(t, row, got)
	}
	_, ok := Lookup("no_such")
	assert.False(t, ok)
}

func TestUnaskedIsUnknownAndTried(t *testing.T) {
	var f Facts
	assert.Equal(t, Unknown, f.State(UserNS))
	assert.True(t, f.Can(UserNS), "a plan tries what nobody asked about")
	f = f.With(UserNS, Answer{State: No, Fix: "do this"})
	assert.False(t, f.Can(UserNS))
	assert.Equal(t, "do this", f.Fix(UserNS))
	assert.Equal(t, Table[0].Fix, Facts{}.Fix(UserNS))
}

func TestWithDoesNotChangeTheOriginal(t *testing.T) {
	f := Facts{}.With(Seccomp, Answer{State: Yes})
	f.With(Seccomp, Answer{State: No})
	assert.Equal(t, Yes, f.State(Seccomp))
}

func TestFactsSurviveJSON(t *testing.T) {
	f := Facts{Kernel: "6.1", Arch: "arm64", UID: 7, LastCap: 40, LandlockABI: 2}.With(Landlock, Answer{State: Yes})
	data, err := json.Marshal(f)
	require.NoError(t, err)
	var back Facts
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, f, back)
}
