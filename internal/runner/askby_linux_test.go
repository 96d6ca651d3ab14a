package runner

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnswersOfAProgram(t *testing.T) {
	for text, want := range map[string]Answer{
		"once":                    {Allow: true},
		"once\n":                  {Allow: true},
		"session\r\n":             {Allow: true, Session: true},
		"deny it is not ours\n":   {Reason: "it is not ours"},
		"deny\n\n  \n":            {},
		"session because I say\n": {Allow: true, Session: true, Reason: "because I say"},
	} {
		got, err := parseAnswer(text)
		assert.NoError(t, err, "%q", text)
		assert.Equal(t, want, got, "%q", text)
	}
	for _, text := range []string{"", "\n", "Once", "once\nsession\n", " once", "once\tx", "allow", "onceonce", "deny\nonce"} {
		got, err := parseAnswer(text)
		assert.Error(t, err, "%q", text)
		assert.False(t, got.Allow, "%q", text)
	}
	assert.Equal(t, "it was not allowed when nsrun asked", reasonOf(Answer{}))
	assert.Equal(t, "a b", reasonOf(Answer{Reason: "a\nb\n"}))
	assert.Empty(t, reasonOf(Answer{Allow: true}))
}
