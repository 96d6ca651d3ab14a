package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWrapExample runs examples/wrap as it is, and as it was with bubblewrap's command line.
func TestWrapExample(t *testing.T) {
	needSandbox(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have python3")
		t.Skip("needs python3")
	}
	// A copy, which the caller could write: that the sandbox cannot is not for want of permission.
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../examples/wrap")))
	agent := filepath.Join(dir, "agent.py")
	const same = `count: {"notes": 2, "words": 11}
write: {"refused": "Read-only file system"}
look: {"beside": ["words"]}
connect: {"refused": "Network is unreachable"}
`
	assert.Equal(t, outcome{stdout: "sandbox: native\n" + same + `secret: {"AGENT_API_KEY": null}
too much: nsrun: --ro: / is the sandbox's own root; name the directories to show in it
nsrun: --ro: / is the whole host; name the directories that are needed
`}, call(t, t.TempDir(), python, agent))
	assert.Equal(t, outcome{stdout: "sandbox: bwrap\n" + same + `secret: {"AGENT_API_KEY": "sk-example"}` + "\n"},
		call(t, t.TempDir(), python, agent, "bwrap"), "the bwrap on PATH is nsrun by its other name")

	t.Run("switched off", func(t *testing.T) {
		t.Setenv("NSRUN_SANDBOX", "Off")
		assert.Equal(t, outcome{stderr: "no sandbox: NSRUN_SANDBOX=Off\n", code: 1}, call(t, "/", python, agent))
	})
	t.Run("not there", func(t *testing.T) {
		t.Setenv("NSRUN", "/nonexistent/nsrun")
		assert.Equal(t, outcome{stderr: "no sandbox: [Errno 2] No such file or directory: '/nonexistent/nsrun'\n", code: 1},
			call(t, "/", python, agent))
	})
	t.Run("named by NSRUN", func(t *testing.T) {
		nsrun, err := exec.LookPath("nsrun")
		require.NoError(t, err)
		t.Setenv("NSRUN", nsrun)
		t.Setenv("PATH", filepath.Dir(python)+":/usr/bin:/bin")
		got := call(t, "/", python, agent)
		assert.Contains(t, got.stdout, same, got.stderr)
	})
	nothingLeft(t)
}
