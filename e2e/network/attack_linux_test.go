package network

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// taken is a helper that an attacker has taken over. Of its texts each would be a line of nsrun's, or clear the screen.
const taken = `#!/usr/bin/python3
import json, socket, sys, time
s = socket.socket(fileno=3)
s.recvmsg(1, 4096)
forged = "x\n\x1b[2J\nnsrun: forged"
def send(**e): s.send(json.dumps(e).encode())
def ready():
    send(ready=True)
    while s.recv(1): pass
`

// takenOver has what it does, by name.
var takenOver = map[string]string{
	"it forges lines and stays": `ready()
sys.stderr.write(forged + "\n"); sys.stderr.flush()
send(summary={"refusals": [{"op": forged, "name": forged, "reason": forged, "detail": forged, "rule": forged, "count": 1}], "names": [{"name": forged}]})
time.sleep(1000)`,
	"it goes on reporting, and stops": `ready()
end = time.time() + 2.5
while time.time() < end: send(refusal={"op": "connect", "reason": forged, "detail": "x", "count": 1})
time.sleep(1000)`,
	"it reports an error": `send(error=forged); time.sleep(1000)`,
	"it prints and ends":  `sys.stderr.write("panic: " + forged * 1000 + "\n"); sys.stderr.flush()`,
	"it prints without end": `ready()
try:
    while True: sys.stderr.write(forged * 1000); sys.stderr.flush()
except OSError: pass
time.sleep(1000)`,
}

// TestHelperTakenOver neither keeps nsrun waiting nor writes to its terminal.
func TestHelperTakenOver(t *testing.T) {
	w := newWorld(t, "root", 0, 0)
	was := built.nsrun
	defer func() { built.nsrun = was }()
	for name, does := range takenOver {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			built.nsrun = filepath.Join(dir, "nsrun")
			require.NoError(t, copyFile(was, built.nsrun))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "nsrun-helper"), []byte(taken+does), 0o755))
			begin := time.Now()
			got := w.run(t, append(allow("listed.test"), "-v"), "false")
			assert.Less(t, time.Since(begin), 20*time.Second)
			assert.NotContains(t, got.out, "\x1b")
			for line := range strings.Lines(got.out) {
				assert.False(t, strings.HasPrefix(line, "nsrun: forged"), "%q", got.out)
			}
			if strings.HasPrefix(does, "sys.stderr") {
				assert.Contains(t, got.out, "panic: x", "what it printed is in the error")
			}
		})
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return out.Close()
}
