package nsrun_test

import (
	"testing"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPoliciesThatCannotBe(t *testing.T) {
	_, err := nsrun.NewPolicy().ReadOnly("").Limit("no_such", 1).Network("moon").SetEnv("", "x").Seccomp("default", "no_call").Label("Task", "1").Build()
	require.Error(t, err)
	for _, word := range []string{"ReadOnly", "no_such", "moon", "env", "no_call", `Label("Task", "1")`} {
		assert.Contains(t, err.Error(), word)
	}
	p, err := nsrun.NewPolicy().ReadOnly("/usr/share").Build()
	require.NoError(t, err)
	p.Spec().FS[0].Dest = "/elsewhere"
	assert.NotEqual(t, "/elsewhere", p.Spec().FS[0].Dest, "what Spec returns is a copy")
}

// TestAPolicyThatIsChanged is checked again, and keeps what it protects.
func TestAPolicyThatIsChanged(t *testing.T) {
	p, err := nsrun.FromPolicy(policy.Default("/home/x"), policy.Operator{}, "/etc/manifest.json")
	require.NoError(t, err)
	q, err := p.With(func(spec policy.Policy) (policy.Policy, error) { spec.Hostname = "other"; return spec, nil })
	require.NoError(t, err)
	assert.Equal(t, "other", q.Spec().Hostname)
	assert.Equal(t, []string{"/etc/manifest.json"}, q.Protected())
	_, err = p.With(func(spec policy.Policy) (policy.Policy, error) { spec.Network = "moon"; return spec, nil })
	assert.ErrorContains(t, err, "moon")
}
