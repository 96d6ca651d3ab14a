package spawner

import (
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARequestHoldsWordsThatAreNotUTF8(t *testing.T) {
	sent := NewRequest(&plan.Plan{Name: "x", Command: []string{"echo", "\xff\xfe", ""}, Env: []string{"A=\xff\x01"}}, []string{"/x"})
	data, err := json.Marshal(sent)
	require.NoError(t, err)
	var got Request
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, "x", got.Plan.Name)
	assert.Equal(t, sent.Protected, got.Protected)
	assert.Equal(t, sent.Plan.Command, got.Whole().Command)
	assert.Equal(t, sent.Plan.Env, got.Whole().Env)
}

func TestAnAnswerHasTheStepThatFailed(t *testing.T) {
	step := &fault.Error{Stage: "mount", Err: fs.ErrPermission}
	assert.Equal(t, Answer{Failure: step}, failed(errors.Join(step)))
	assert.Equal(t, "spawner: odd", failed(errors.New("odd")).Failure.Error())
}
