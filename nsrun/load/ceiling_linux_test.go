package load

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// under is what is left of a policy.
func under(optional string, pol policy.Policy, files ...string) (policy.Policy, []string, error) {
	op, found, err := operator(optional, files...)
	if err != nil {
		return pol, nil, err
	}
	pol, err = policy.Normalize(pol, op)
	return pol, found, err
}

func TestTheOperatorsCeilingCutsManifests(t *testing.T) {
	dir := write(t, map[string]string{
		"agent.json": notes, "tool/main.py": "", "out/x": "",
		"ceiling/c.json": `{"fs_read": ["/"], "limits": {"timeout": "1s", "open_files": 32}}`,
	})
	require.NoError(t, os.Symlink("ceiling/c.json", filepath.Join(dir, "c.json")))
	t.Setenv(CeilingVariable, filepath.Join(dir, "c.json"))
	fromFile, err := Manifest(filepath.Join(dir, "agent.json"))
	require.NoError(t, err)
	inline, err := Bytes("inline", []byte(notes), dir)
	require.NoError(t, err)
	for name, pol := range map[string]nsrun.Policy{"Manifest": fromFile, "Bytes": inline} {
		spec := pol.Spec()
		assert.Equal(t, time.Second, spec.Timeout, name)
		assert.Equal(t, int64(32), openFiles(spec), name)
		assert.Empty(t, spec.Env.Pass, name)
		out, _ := source(spec, filepath.Join(dir, "out"))
		assert.False(t, out.Write, "%s: nothing is writable under this ceiling", name)
		var told []string
		for _, n := range spec.Notes {
			told = append(told, n.Feature)
		}
		assert.Subset(t, told, []string{"fs", "env", "limits", "timeout"}, "%s: each cut is told", name)
	}
	want, err := nsrun.FromPolicy(fromFile.Spec(), policy.Operator{}, filepath.Join(dir, "agent.json"), filepath.Join(dir, "ceiling/c.json"))
	require.NoError(t, err)
	assert.Equal(t, want, fromFile, "the manifest and the ceiling itself are protected")
	want, err = nsrun.FromPolicy(inline.Spec(), policy.Operator{}, filepath.Join(dir, "ceiling/c.json"))
	require.NoError(t, err)
	assert.Equal(t, want, inline, "the ceiling is protected from what came inline too")
}

func TestTheClosedCeilingLeavesAPolicy(t *testing.T) {
	dir := write(t, map[string]string{"agent.json": `{"workspace": "~/w", "network": "host", "seccomp": "off"}`, "home/w/x": "", "c.json": "{}"})
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv(CeilingVariable, filepath.Join(dir, "c.json"))
	pol, err := Manifest(filepath.Join(dir, "agent.json"))
	require.NoError(t, err)
	_, shown := source(pol.Spec(), filepath.Join(dir, "home/w"))
	assert.False(t, shown, "the workspace is beyond the ceiling")
	assert.Equal(t, policy.NetworkNone, pol.Spec().Network)
}

func TestCeilingsAddUpAndTheOperatorsFileMayBeMissing(t *testing.T) {
	dir := write(t, map[string]string{
		"etc.json": `{"limits": {"open_files": 64}, "network": "host"}`,
		"env.json": `{"limits": {"open_files": 128}, "network": "host"}`,
		"arg.json": `{"limits": {"open_files": 32}}`,
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	pol := policy.Default("").WithLimit("open_files", 256)
	pol.Network = policy.NetworkHost
	pol, err := policy.Normalize(pol, policy.Operator{})
	require.NoError(t, err)

	got, files, err := under(at("missing.json"), pol)
	require.NoError(t, err)
	assert.Equal(t, pol, got, "without a ceiling nothing is cut")
	assert.Empty(t, files)

	got, files, err = under(at("etc.json"), pol, at("env.json"), "")
	require.NoError(t, err)
	assert.Equal(t, int64(64), openFiles(got), "a wider one does not widen")
	assert.Equal(t, policy.NetworkHost, got.Network)
	assert.Equal(t, []string{at("etc.json"), at("env.json")}, files)

	got, _, err = under(at("etc.json"), pol, at("env.json"), at("arg.json"))
	require.NoError(t, err)
	assert.Equal(t, int64(32), openFiles(got))
	assert.Equal(t, policy.NetworkNone, got.Network)
	assert.Equal(t, int64(256), openFiles(pol), "the policy that was given is as it was")

	t.Setenv(CeilingVariable, at("env.json"))
	op, files, err := Operator(at("arg.json"))
	require.NoError(t, err)
	got, err = policy.Normalize(pol, op)
	require.NoError(t, err)
	assert.Equal(t, int64(32), openFiles(got))
	assert.Subset(t, files, []string{at("env.json"), at("arg.json")})
}

func TestACeilingThatCannotBeReadIsNeverLeftOut(t *testing.T) {
	dir := write(t, map[string]string{"ok.json": "{}", "bad.json": "{\n \"fs_reed\": []}", "empty.json": ""})
	t.Chdir(dir)
	require.NoError(t, unix.Mkfifo("pipe", 0o644))
	require.NoError(t, os.Symlink("loop", "loop"))
	for _, c := range []struct{ file, says string }{
		{".", "ceiling: . is a directory; name the file in it"},
		{"pipe", "ceiling: pipe is not a regular file"},
		{"loop", "ceiling: open loop: too many levels of symbolic links"},
		{"ok.json/x", "ceiling: open ok.json/x: not a directory"},
		{"bad.json", "bad.json:2:2: fs_reed: a ceiling has no such key (did you mean fs_read?)"},
		{"empty.json", "empty.json:1:1: the file is empty"},
	} {
		_, _, err := under(c.file, policy.Default(""))
		assert.ErrorContains(t, err, c.says, "as the operator's")
		_, _, err = under("", policy.Default(""), c.file)
		assert.ErrorContains(t, err, c.says, "as another")
		t.Setenv(CeilingVariable, c.file)
		_, err = Bytes("inline", []byte("{}"), "")
		assert.ErrorContains(t, err, c.says, "by the variable")
	}
	_, _, err := under("", policy.Default(""), "nope.json")
	assert.ErrorContains(t, err, "ceiling: open nope.json: no such file or directory", "only the operator's file need not be there")
}

func TestRealLeavesOutWhatIsNotThere(t *testing.T) {
	dir := write(t, map[string]string{"a": ""})
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "b")))
	t.Chdir(dir)
	assert.Equal(t, []string{filepath.Join(dir, "a")}, Real("nope", "b"))
}
