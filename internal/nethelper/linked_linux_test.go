package nethelper

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAProgramThatIsItsOwnHelper serves, and has a filter on every thread, also where it links a C library: as with the race detector.
func TestAProgramThatIsItsOwnHelper(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f, addr := proxy(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env = []string{"nsrun-helper"}, []string{isHelper + "=1"}
	h := startAs(t, cmd, netmessage.Start{Rules: []string{l.Addr().String()}, Sockets: []string{netmessage.Proxy}}, f)
	require.Equal(t, netmessage.Event{Ready: true}, h.event())
	_, line := connect(t, addr, l.Addr().String())
	assert.Contains(t, line, "200")
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", cmd.Process.Pid))
	require.NoError(t, err)
	require.NotEmpty(t, tasks)
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		require.NoError(t, err)
		for _, want := range []string{"Seccomp:\t2\n", "NoNewPrivs:\t1\n"} {
			assert.Contains(t, string(status), want, task)
		}
	}
}
