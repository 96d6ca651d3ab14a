package netlink

import (
	"encoding/binary"
	"os"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

// TestMessages: they are whole, none asks for an answer, and the table redirects to Port. That the kernel takes them, and does what they say, is for the
// tests of package nethost and of e2e/network.
func TestMessages(t *testing.T) {
	for name, b := range map[string][]byte{"route 4": Routes4(), "route 6": Routes6(), "redirect": Redirect()} {
		all, err := syscall.ParseNetlinkMessage(b)
		require.NoError(t, err, name)
		size := 0
		for _, m := range all {
			assert.Zero(t, m.Header.Flags&(syscall.NLM_F_ACK|syscall.NLM_F_ECHO), name)
			size += int(m.Header.Len+3) &^ 3
		}
		assert.Equal(t, len(b), size, name)
	}
	assert.Contains(t, string(Redirect()), string(binary.BigEndian.AppendUint16(nil, Port)))
}
