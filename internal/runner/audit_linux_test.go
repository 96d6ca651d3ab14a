package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/audit"
	"github.com/nsrun/nsrun/nsrun/result"
)

// loggedRuns reads a log, which must be whole, and gives verdict and command of each run.
func loggedRuns(t *testing.T, log string) (all []string) {
	t.Helper()
	r, err := audit.Read(log)
	require.NoError(t, err)
	defer r.Close()
	report, err := audit.Verify(r)
	require.NoError(t, err)
	require.NoError(t, report.Fault)
	again, err := audit.Read(log)
	require.NoError(t, err)
	defer again.Close()
	_, err = audit.Runs(again, audit.Filter{}, func(run audit.RunRows) error {
		all = append(all, run.Verdict()+" "+run.Command())
		return nil
	})
	require.NoError(t, err)
	return all
}

func TestAuditOfASession(t *testing.T) {
	log, ctx := filepath.Join(t.TempDir(), "audit.jsonl"), context.Background()
	s := opened(t, NewPolicy().Audit(log).Timeout(time.Minute))
	assert.Empty(t, loggedRuns(t, log), "to open a session is no run")
	_, err := s.Exec(ctx, []string{"true"}, nil)
	require.NoError(t, err)
	_, err = s.Exec(ctx, []string{"nope"}, nil)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = s.Exec(ctx, []string{"true"}, &ExecOptions{Timeout: time.Hour})
	require.Error(t, err)
	p, err := start(ctx, s, []string{"sleep", "1000"}, ExecOptions{Env: []string{"X=unseen"}})
	require.NoError(t, err)
	want := []string{"ok true", "not-found nope", "policy true"}
	assert.Equal(t, append(want[:3:3], "running sleep 1000"), loggedRuns(t, log))
	_, err = s.Exec(ctx, []string{"false"}, nil)
	require.NoError(t, err)
	assert.Equal(t, append(want[:3:3], "exit false", "running sleep 1000"), loggedRuns(t, log), "another command of the same process does not end it")
	require.NoError(t, s.Close())
	_, _ = p.Wait()
	assert.Equal(t, append(want[:3:3], "exit false", "interrupted sleep 1000"), loggedRuns(t, log), "its end is told when Close returns")
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Contains(t, string(data), `"X"`)
	assert.NotContains(t, string(data), "unseen")
}

// TestLabelsOfCommands: a session's commands have the policy's labels and their own, of which those win.
func TestLabelsOfCommands(t *testing.T) {
	log, ctx := filepath.Join(t.TempDir(), "audit.jsonl"), context.Background()
	asked := NewPolicy().Audit(log).Label("role", "tester").Label("task", "0")
	policy, s := built(t, asked), opened(t, asked)
	_, err := s.Exec(ctx, []string{"true"}, &ExecOptions{Labels: []string{"task=1", "task=2"}})
	require.NoError(t, err)
	p, err := start(ctx, s, []string{"true"}, ExecOptions{Labels: []string{"task=3"}})
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	_, err = Run(ctx, policy, []string{"true"}, &ExecOptions{Labels: []string{"task=4"}})
	require.NoError(t, err)
	var refused *RefusedError
	for _, bad := range []string{"task", "Task=1", "task=a\nb"} {
		_, err = s.Exec(ctx, []string{"true"}, &ExecOptions{Labels: []string{bad}})
		require.ErrorAs(t, err, &refused, bad)
		assert.Equal(t, "labels", refused.Field)
	}

	file, err := audit.Read(log)
	require.NoError(t, err)
	defer file.Close()
	var tasks []string
	_, err = audit.Runs(file, audit.Filter{Labels: map[string]string{"role": "tester"}}, func(run audit.RunRows) error {
		tasks = append(tasks, string(run.Start.Labels["task"]))
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"2", "3", "4"}, tasks)
}

func TestAuditOfRun(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.jsonl")
	// The directory is shown, the log in it is not.
	policy := built(t, NewPolicy().ReadOnly(dir).Audit(log).Audit(dir+"/./audit.jsonl"))
	r, err := Run(context.Background(), policy, Shell("cat "+log), nil)
	require.NoError(t, err)
	assert.NotContains(t, string(r.Stdout), "nsrun_audit")
	assert.Equal(t, []string{r.verdict() + ` /bin/sh -c "cat ` + log + `"`}, loggedRuns(t, log), "one file is told once, by whatever names")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m, ended := mark("audited"), make(chan error, 1)
	go func() {
		_, err := Run(ctx, policy, []string{"sleep", "1000"}, &ExecOptions{Env: []string{m}})
		ended <- err
	}()
	eventually(t, "the command has begun", func() bool { return len(marked(m)) > 0 })
	cancel()
	require.Error(t, testenv.Receive(t, ended, "Run, whose context has ended"))
	assert.Equal(t, "interrupted sleep 1000", loggedRuns(t, log)[1])
}

func (r *ExecResult) verdict() string { return string(r.Verdict) }

func TestNoAuditNoRun(t *testing.T) {
	dir := t.TempDir()
	log, mark := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "work", "mark")
	require.NoError(t, os.Mkdir(filepath.Dir(mark), 0o700))
	policy := built(t, NewPolicy().Workspace(filepath.Dir(mark)).Audit(log))
	s, err := Open(context.Background(), policy)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, os.Chmod(log, 0o644))
	var failed *Error
	_, err = s.Exec(context.Background(), []string{"touch", mark}, nil)
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "audit", failed.Stage)
	_, err = start(context.Background(), s, []string{"touch", mark}, ExecOptions{})
	require.ErrorAs(t, err, &failed)
	_, err = Run(context.Background(), policy, []string{"touch", mark}, nil)
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "chmod 600 "+log, failed.Hint)
	_, err = Open(context.Background(), policy)
	require.ErrorAs(t, err, &failed)
	assert.NoFileExists(t, mark)
	require.NoError(t, os.Chmod(log, 0o600))
	_, err = Run(context.Background(), built(t, NewPolicy().Workspace(dir).Audit(log)), []string{"true"}, nil)
	assert.ErrorContains(t, err, "would make "+log+" writable")
}

// A sandbox covers the file that was there when it was made.
func TestAuditLogThatWasReplaced(t *testing.T) {
	for _, shown := range []bool{true, false} {
		dir := t.TempDir()
		log := filepath.Join(dir, "audit.jsonl")
		b := NewPolicy().Audit(log)
		if shown {
			b.ReadOnly(dir)
		}
		s := opened(t, b)
		sh(t, s, "true")
		require.NoError(t, os.Rename(log, log+".1"))
		_, err := s.Exec(context.Background(), []string{"true"}, nil)
		if !shown {
			require.NoError(t, err)
			assert.Equal(t, []string{"ok true"}, loggedRuns(t, log), "rotated")
			continue
		}
		assert.ErrorContains(t, err, "another file than when the session was opened")
	}
}

// What the end cannot be written of is a note of the result, and the next run tells it as aborted.
func TestAuditWhoseEndCannotBeWritten(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	s := opened(t, NewPolicy().Audit(log))
	p, err := start(context.Background(), s, []string{"cat"}, ExecOptions{})
	require.NoError(t, err)
	before, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(log, 0)) // somebody takes the rows away
	require.NoError(t, p.Stdin().Close())
	r, err := p.Wait()
	require.NoError(t, err)
	assert.Equal(t, OK, r.Verdict)
	require.NotEmpty(t, r.Receipt.Notes)
	assert.Equal(t, "audit", r.Receipt.Notes[len(r.Receipt.Notes)-1].Feature)
	require.NoError(t, os.WriteFile(log, before, 0o600))
	sh(t, s, "true")
	assert.Equal(t, []string{"aborted cat", `ok /bin/sh -c true`}, loggedRuns(t, log))
}

// TestDeniedRows: the log has the result's denials, but no path that looks like a secret.
func TestDeniedRows(t *testing.T) {
	plain := result.Denial{Kind: "fs", Op: "openat", Path: "/data/x", Host: "/data/x", Rule: "view", Count: 1, Change: &result.Change{Flag: "--ro /data/x"}}
	token := plain
	token.Path = "/data/ghp_" + strings.Repeat("a1B2", 9)
	token.Change = &result.Change{Flag: "--ro " + token.Path}
	rows := deniedRows([]result.Denial{plain, token, {Kind: "secret", Op: "openat", Rule: "view", Count: 2}})
	require.Len(t, rows, 3)
	assert.JSONEq(t, `{"kind":"fs","op":"openat","path":"/data/x","host":"/data/x","rule":"view","count":1,"change":{"flag":"--ro /data/x","manifest":""}}`, string(rows[0]))
	assert.JSONEq(t, `{"kind":"fs","op":"openat","path":"/data/[redacted]","host":"/data/x","rule":"view","count":1}`, string(rows[1]))
	assert.JSONEq(t, `{"kind":"secret","op":"openat","rule":"view","count":2}`, string(rows[2]))
}
