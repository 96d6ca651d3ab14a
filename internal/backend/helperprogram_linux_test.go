package backend

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAHelperFromMemory starts, wherever this process has room for descriptors: whatever the child does with numbers of its own, the program is not overwritten.
func TestAHelperFromMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), HelperName)
	require.NoError(t, testenv.Build(file, "../../cmd/"+HelperName))
	program, err := os.ReadFile(file)
	require.NoError(t, err)
	p := &plan.Plan{Allow: &plan.Allow{Rules: []string{"example.com"}, Step: plan.StepRedirect}}
	var held []int
	for range 24 {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		held = append(held, fd)
	}
	for i := range held { // with one hole more each time
		h, err := startHelper(p, Helper{Program: string(program)}, NetworkOptions{})
		require.NoError(t, err, "hole %d", i)
		require.NoError(t, h.take(netmessage.DNS, dnsSocket(t)))
		require.NoError(t, h.awaitReady())
		summary := h.finish()
		require.NotNil(t, summary, "hole %d", i)
		unix.Close(held[i])
	}
	// Without a program in memory it is the file.
	_, err = startHelper(p, Helper{Path: filepath.Join(t.TempDir(), "none")}, NetworkOptions{})
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.NoError(t, LookForHelper(p, Helper{Program: string(program)}))
	assert.Error(t, LookForHelper(p, Helper{Path: filepath.Join(t.TempDir(), "none")}))
}

// dnsSocket is a socket as pid 1 sends one.
func dnsSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	return fd
}
