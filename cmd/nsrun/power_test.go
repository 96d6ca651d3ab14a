package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBwrapsMonitorHasNoPowerWhenTheCommandBegins looks at every thread of it, from outside.
func TestBwrapsMonitorHasNoPowerWhenTheCommandBegins(t *testing.T) {
	needSandbox(t)
	nsrun := realBinary(t)
	own, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	require.Contains(t, string(own), "\nNoNewPrivs:\t0\n", "or a process has from this one what is looked for")
	for name, args := range map[string][]string{"by its name": {"bwrap"}, "as a verb": {"nsrun", "bwrap"}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(nsrun)
			cmd.Args = append(args, "--ro-bind", "/", "/", "--unshare-pid", "/bin/sh", "-c", "echo begun; read go; exit 0")
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "begun\n", line)
			files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", cmd.Process.Pid))
			require.NoError(t, err)
			assert.Greater(t, len(files), 1, "one thread proves nothing")
			for _, f := range files {
				status, err := os.ReadFile(f)
				require.NoError(t, err)
				assert.Contains(t, string(status), "\nNoNewPrivs:\t1\n", f)
				if os.Geteuid() == 0 {
					assert.Contains(t, string(status), "\nSeccomp:\t2\n", f)
				}
				if filepath.Base(filepath.Dir(f)) == fmt.Sprint(cmd.Process.Pid) {
					assert.Contains(t, string(status), "\nCapEff:\t0000000000000000\n", f)
				}
			}
			stdin.Close()
			assert.NoError(t, cmd.Wait())
		})
	}
}
