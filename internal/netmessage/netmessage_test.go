package netmessage

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

func TestWhatHasComeSince(t *testing.T) {
	before := Summary{Names: []Name{{"a", 1, 10, 20}, {"b", 2, 1, 1}}, Refusals: []Refusal{{Name: "x", Count: 3, Serial: 1}, {Name: "y", Count: 1, Serial: 2}}, Omitted: 1}
	now := Summary{Names: []Name{{"a", 1, 15, 20}, {"b", 2, 1, 1}, {"c", 1, 0, 0}},
		Refusals: []Refusal{{Name: "z", Count: 1, Serial: 4}, {Name: "x", Count: 3, Serial: 3}, {Name: "y", Count: 3, Serial: 2}}, Omitted: 3}
	assert.Equal(t, Summary{
		Names:    []Name{{"a", 0, 5, 0}, {"c", 1, 0, 0}},
		Refusals: []Refusal{{Name: "z", Count: 1, Serial: 4}, {Name: "x", Count: 3, Serial: 3}, {Name: "y", Count: 2, Serial: 2}},
		Omitted:  2}, now.Since(before), "x was forgotten, and refused three times again")
	assert.Equal(t, Summary{}, now.Since(now))
	assert.Equal(t, now, now.Since(Summary{}))
}
