package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTheLastOutputIsWholeOrReported has nsrun wait for the reader of what an ended command has written, and takes the descriptors away by which it
// waits: poll(2) fails with EINVAL where there are more than RLIMIT_NOFILE. Output may be lost then, but not without a word.
func TestTheLastOutputIsWholeOrReported(t *testing.T) {
	needSandbox(t)
	const written = 120_000 // more than one pipe holds, and less than two
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails %v", fails), func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			var stderr bytes.Buffer
			cmd := exec.Command("nsrun", "run", "--", "head", "-c", fmt.Sprint(written), "/dev/zero")
			cmd.Stdout, cmd.Stderr = w, &stderr
			require.NoError(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill() }()
			require.NoError(t, w.Close())
			require.Eventually(t, func() bool { // the command has ended: what it has written fills the one pipe, and waits in the other one
				n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
				return err == nil && n == 1<<16 && len(children(t, cmd.Process.Pid)) == 0
			}, time.Minute, 10*time.Millisecond)
			if fails {
				var limit unix.Rlimit
				require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit))
				require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: limit.Max}, nil))
				require.Error(t, cmd.Wait())
			}
			read, err := io.ReadAll(r)
			require.NoError(t, err)
			if !fails {
				require.NoError(t, cmd.Wait(), "control")
				assert.Len(t, read, written)
				return
			}
			assert.Equal(t, 1, cmd.ProcessState.ExitCode())
			assert.Contains(t, stderr.String(), fmt.Sprintf("standard output: it took %d bytes, and the rest is lost: ppoll: invalid argument", len(read)))
			assert.NotContains(t, stderr.String(), "raise it", "no bound was reached")
		})
	}
}
