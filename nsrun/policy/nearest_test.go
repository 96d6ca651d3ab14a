package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"veiw": "view", "kill-tree": "kill_tree", "Seccomp": "seccomp", "netwrok": "network", "zzz": "", "": ""} {
		got, ok := Nearest(word, Guarantees[:])
		assert.Equal(t, want, got, word)
		assert.Equal(t, want != "", ok, word)
	}
}
