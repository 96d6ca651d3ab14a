package backend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lie is a network helper that does what its only rule says.
func lie() {
	var start netmessage.Start
	if _, err := wire.Receive(3, &start); err != nil {
		return
	}
	say := func(e netmessage.Event) {
		data, _ := json.Marshal(e)
		_ = unix.Sendto(3, data, unix.MSG_NOSIGNAL, nil)
	}
	say(netmessage.Event{Ready: true})
	if start.Rules[0] == "counts" {
		for range 10 {
			say(netmessage.Event{Counts: &netmessage.Summary{}})
		}
	}
	for {
		if n, err := unix.Read(3, make([]byte, netmessage.MaxEvent)); n <= 0 || err != nil {
			break
		}
	}
	if start.Rules[0] == "late" {
		time.Sleep(time.Second / 2)
	}
	say(netmessage.Event{Summary: &netmessage.Summary{Omitted: 7}})
}

// lyingHelper is a network whose helper is [lie].
func lyingHelper(t *testing.T, rule string, o NetworkOptions) *Network {
	t.Helper()
	n, err := StartNetwork(&plan.Plan{Allow: &plan.Allow{Rules: []string{rule}}}, "/proc/self/exe", o)
	require.NoError(t, err)
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, n.Serve([]string{netmessage.DNS}, []int{null}))
	return n
}

// TestCountsThatNobodyHasAskedFor do not keep the sandbox from ending.
func TestCountsThatNobodyHasAskedFor(t *testing.T) {
	n := lyingHelper(t, "counts", NetworkOptions{})
	testenv.Returns(t, "the end", func() { <-n.ended })
	testenv.Returns(t, "the end", n.End)
	_, err := n.Counts()
	assert.ErrorContains(t, err, "nobody had asked for")
}

// TestCountsWhileTheSandboxEnds are those of the end: the helper is not killed for them.
func TestCountsWhileTheSandboxEnds(t *testing.T) {
	n := lyingHelper(t, "late", NetworkOptions{})
	ended := make(chan struct{})
	go func() { defer close(ended); n.End() }()
	testenv.Eventually(t, n.helper.ending, "the end")
	counts, err := n.Counts()
	require.NoError(t, err)
	assert.Equal(t, 7, counts.Omitted)
	testenv.Receive(t, ended, "the end")
}

// TestWithoutAHelper: a plan with an allow-list does not run, and a look at it says so.
func TestWithoutAHelper(t *testing.T) {
	p, none := &plan.Plan{Allow: &plan.Allow{Rules: []string{"example.com"}}}, filepath.Join(t.TempDir(), HelperName)
	_, err := startHelper(p, none, NetworkOptions{})
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorIs(t, LookForHelper(p, none), os.ErrNotExist)
	_, err = startHelper(p, "", NetworkOptions{})
	assert.Error(t, err)
	assert.NoError(t, LookForHelper(&plan.Plan{}, none))
}
