package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// TestOutputIsBoundedWhereverItGoes, if that was asked for.
func TestOutputIsBoundedWhereverItGoes(t *testing.T) {
	const most = 10_000
	s := opened(t, NewPolicy().Limit("output_bytes", most))
	for _, script := range []string{"exec yes", "exec yes >&2"} {
		p, err := start(context.Background(), s, Shell(script), ExecOptions{})
		require.NoError(t, err)
		returns(t, "reading", func() {
			out, _ := io.ReadAll(p.Stdout)
			errs, _ := io.ReadAll(p.Stderr)
			assert.Len(t, append(out, errs...), most, "and then the end")
		})
		r, err := p.Wait()
		require.NoError(t, err)
		assert.Equal(t, Output, r.Verdict)
		assert.Equal(t, 137, r.Code)
		p.close()
	}
	p, err := start(context.Background(), s, Shell("head -c 10000 /dev/zero"), ExecOptions{})
	require.NoError(t, err)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	r, err := p.Wait()
	require.NoError(t, err)
	assert.Equal(t, OK, r.Verdict, "as much as it may")
	assert.Len(t, out, most)
	p.close()

	p, err = start(context.Background(), s, Shell("head -c 20000 /dev/zero"), ExecOptions{})
	require.NoError(t, err)
	r, err = p.Wait() // before anybody has read what lies in the pipe
	require.NoError(t, err)
	assert.Equal(t, Output, r.Verdict, "what nobody gets is not lost without a word")
	assert.Equal(t, 137, r.Code)
	out, err = io.ReadAll(p.Stdout)
	require.NoError(t, err)
	assert.Len(t, out, most)
	p.close()

	p, err = start(context.Background(), s, Shell("exec yes"), ExecOptions{Terminal: &Size{24, 80}})
	require.NoError(t, err)
	out, _ = io.ReadAll(p.Stdout)
	assert.Len(t, out, most, "of a terminal, too")
	r, err = p.Wait()
	require.NoError(t, err)
	assert.Equal(t, Output, r.Verdict)
	p.close()

	name := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(name)
	require.NoError(t, err)
	defer file.Close()
	e, err := s.Exec(context.Background(), Shell("exec yes"), &ExecOptions{Stdout: file})
	require.NoError(t, err)
	assert.Equal(t, Output, e.Verdict)
	for _, n := range e.Receipt.Notes {
		assert.NotEqual(t, "output_bytes", n.Feature, n.Loss)
	}
	info, err := os.Stat(name)
	require.NoError(t, err)
	assert.EqualValues(t, most, info.Size())

	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	e, err = s.Exec(context.Background(), Shell("head -c 20000 /dev/zero"), &ExecOptions{Stdout: null})
	require.NoError(t, err)
	assert.Equal(t, OK, e.Verdict)
	if assert.NotEmpty(t, e.Receipt.Notes) {
		assert.Equal(t, "output_bytes", e.Receipt.Notes[len(e.Receipt.Notes)-1].Feature, "it is said that nobody counts")
	}
}

// TestAFileThatDoesNotTakeOutput is told of, although the command has written well.
func TestAFileThatDoesNotTakeOutput(t *testing.T) {
	s := opened(t, NewPolicy().Limit("output_bytes", 10_000))
	name := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	file, err := os.Open(name) // for reading
	require.NoError(t, err)
	defer file.Close()
	e, err := s.Exec(context.Background(), Shell("echo hello; echo well >&2"), &ExecOptions{Stdout: file})
	require.NoError(t, err)
	assert.Equal(t, Output, e.Verdict)
	assert.Equal(t, 1, e.Code)
	assert.Zero(t, *e.StdoutBytes)
	assert.Equal(t, "well\n", string(e.Stderr))
	if assert.NotEmpty(t, e.Receipt.Notes) {
		assert.Equal(t, "stdout: it took 0 bytes, and the rest is lost: bad file descriptor", e.Receipt.Notes[len(e.Receipt.Notes)-1].Loss)
	}
}

// TestTwoFilesThatAreOne keep the order of what is written to them, and have one bound.
func TestTwoFilesThatAreOne(t *testing.T) {
	s := opened(t, NewPolicy().Limit("output_bytes", 10_000))
	name := filepath.Join(t.TempDir(), "out")
	var files [2]*os.File
	for i := range files {
		var err error
		files[i], err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		defer files[i].Close()
	}
	opts := &ExecOptions{Stdout: files[0], Stderr: files[1]}
	_, err := s.Exec(context.Background(), Shell("for i in 1 2 3; do echo out; echo err >&2; done"), opts)
	require.NoError(t, err)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("out\nerr\n", 3), string(data))
	e, err := s.Exec(context.Background(), Shell("yes >&2 & exec yes"), opts)
	require.NoError(t, err)
	assert.Equal(t, Output, e.Verdict)
	info, err := os.Stat(name)
	require.NoError(t, err)
	assert.EqualValues(t, len(data)+10_000, info.Size())
}

// TestABoundedStreamThatIsClosed says so as a file does.
func TestABoundedStreamThatIsClosed(t *testing.T) {
	for _, b := range []*Builder{NewPolicy(), NewPolicy().Limit("output_bytes", 10_000)} {
		p, err := start(context.Background(), opened(t, b), []string{"sleep", "1000"}, ExecOptions{})
		require.NoError(t, err)
		read := make(chan error, 1)
		go func() { _, err := p.Stdout.Read(make([]byte, 1)); read <- err }()
		time.Sleep(10 * time.Millisecond) // before or after that the reader waits: it is the same
		require.NoError(t, p.Stdout.Close())
		assert.ErrorIs(t, <-read, io.ErrClosedPipe)
		_, err = p.Stdout.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.ErrClosedPipe)
		p.close()
	}
}

// TestTheDefaultBoundIsNotOneOfProcesses that go on, and their receipt does not say so.
func TestTheDefaultBoundIsNotOneOfProcesses(t *testing.T) {
	s := opened(t, NewPolicy())
	counted := func(r Receipt) (found bool) {
		for _, l := range r.Limits {
			found = found || l.By == "pipe"
		}
		return found
	}
	e, err := s.Exec(context.Background(), []string{"true"}, nil)
	require.NoError(t, err)
	assert.True(t, counted(e.Receipt), "positive control")
	p, err := start(context.Background(), s, []string{"true"}, ExecOptions{})
	require.NoError(t, err)
	r, err := p.Wait()
	require.NoError(t, err)
	assert.False(t, counted(r.Receipt))
	p.close()
}

// TestACeilingBoundsProcesses, although the policy's own time does not.
func TestACeilingBoundsProcesses(t *testing.T) {
	own, err := NewPolicy().Timeout(50 * time.Millisecond).KillGrace(50 * time.Millisecond).Degrade().Build()
	require.NoError(t, err)
	sleeping := func(p policy.Policy) (*piped, error) {
		s, err := Open(context.Background(), p)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return start(context.Background(), s, []string{"sleep", "1000"}, ExecOptions{})
	}
	p, err := sleeping(own)
	require.NoError(t, err)
	select {
	case <-p.Done():
		t.Error("positive control: it goes on")
	case <-time.After(500 * time.Millisecond):
	}
	for ceiling := testenv.Scale(100 * time.Millisecond); ; ceiling *= 3 { // the time counts from before the command begins, which takes long on a busy machine
		under, err := policy.Normalize(own, policy.Operator{Ceilings: []policy.Ceiling{{Timeout: ceiling, Fallback: policy.Degrade}}})
		require.NoError(t, err)
		p, err := sleeping(under)
		if errors.Is(err, errStart) && ceiling < testenv.Limit(0) {
			continue
		}
		require.NoError(t, err)
		returns(t, "Wait", func() {
			r, err := p.Wait()
			assert.NoError(t, err)
			assert.Equal(t, Timeout, r.Verdict)
		})
		return
	}
}
