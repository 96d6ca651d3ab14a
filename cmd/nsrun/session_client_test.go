package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const demoOutput = `a warm command: hello
it has read and written: 23 bytes, A FILE IN THE WORKSPACE
refused: timeout
not installed: no-such-program
it ran and failed: 3 the reason
it took too long: timeout 124
a server has answered: 49 64
and has ended: ok
all is closed
`

// The demos of the clients do the same in each language.
func TestSessionClients(t *testing.T) {
	needSandbox(t)
	exe, err := exec.LookPath("nsrun")
	require.NoError(t, err)
	for interpreter, demo := range map[string]string{"python3": "python/demo.py", "node": "node/demo.mjs"} {
		t.Run(interpreter, func(t *testing.T) {
			path, err := exec.LookPath(interpreter)
			if err != nil {
				require.Empty(t, os.Getenv("CI"), "CI must have %s", interpreter)
				t.Skip("needs " + interpreter)
			}
			for _, by := range []string{"NSRUN=" + exe, "NSRUN="} { // and by PATH
				cmd := exec.Command(path, filepath.Join("../../examples", demo))
				cmd.Env = append(os.Environ(), by, "PYTHONDONTWRITEBYTECODE=1")
				written, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", written)
				assert.Equal(t, demoOutput, string(written))
			}
			nothingLeft(t)
		})
	}
}

// What both clients say of testdata/client.*, but for how each language writes a piece of output and names its errors.
const clientOutput = `stream PIECE exit 3
stream timeout
exec TypeError REFUSED
timeout Refused timeout: 1m39s is above the policy's 1m0s (ask for less, or raise the policy's timeout)
start NotFound exec: no-such-program: command not found in the sandbox: no such file or directory (FIX)
stream NotFound exec: no-such-program: command not found in the sandbox: no such file or directory (FIX)
left 0
bounded true
others answered
others streamed
others ok
killed signal
all of it 30000001
again 0
same true
write Closed the process has ended
signal Closed the process has ended
closed true
wait Closed the session is closed
no nsrun ERROR
`

// Streams, what is kept of output that is not read, and calls after the end.
func TestSessionClientsStream(t *testing.T) {
	needSandbox(t)
	exe, err := exec.LookPath("nsrun")
	require.NoError(t, err)
	for interpreter, c := range map[string]struct{ script, piece, refused, missing string }{
		"python3": {"client.py", "('stdout', 'out\\n')", "exec() collects the output: use stream()", "FileNotFoundError"},
		"node":    {"client.mjs", `{"stdout":"out\n"}`, "exec collects the output: use stream", "ENOENT"},
	} {
		t.Run(interpreter, func(t *testing.T) {
			path, err := exec.LookPath(interpreter)
			if err != nil {
				require.Empty(t, os.Getenv("CI"), "CI must have %s", interpreter)
				t.Skip("needs " + interpreter)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Limit(0)) // a client that hangs
			defer cancel()
			cmd := exec.CommandContext(ctx, path, filepath.Join("testdata", c.script), t.TempDir())
			cmd.Env = append(os.Environ(), "NSRUN="+exe, "PYTHONPATH=../../examples/python", "PYTHONDONTWRITEBYTECODE=1")
			cmd.WaitDelay = testenv.Limit(0)
			written, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", written)
			want := strings.NewReplacer("PIECE", c.piece, "REFUSED", c.refused, "ERROR", c.missing,
				"FIX", "give a path that the sandbox can see, or grant its directory with --ro").Replace(clientOutput)
			assert.Equal(t, want, string(written))
			nothingLeft(t)
		})
	}
}
