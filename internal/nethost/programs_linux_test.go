package nethost

import (
	"net"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPrograms runs programs inside that know nothing of nsrun. A program that is not installed is left out.
func TestPrograms(t *testing.T) {
	h := newHost()
	plain, secure := newWeb(t, (*httptest.Server).Start), newWeb(t, (*httptest.Server).StartTLS)
	banner := listen(t, func(c *net.TCPConn) { _, _ = c.Write([]byte("SSH-2.0-test\r\n")); echo(c) })
	h.put("a.example.com", "93.184.216.34", 80, plain.addr())
	h.put("", "93.184.216.34", 443, secure.addr())
	h.put("git.example.com", "93.184.216.35", 22, banner)
	b := newBox(t, h, "a.example.com", "git.example.com:22")
	const python = "import socket,sys;s=socket.create_connection(('git.example.com',22));s.sendall(b'SSH-2.0-me\\r\\n');print(s.recv(100))"
	const tunnel = "import socket;s=socket.create_connection(('secret.attacker.org',53))"
	for _, x := range []struct {
		command string
		want    string
		fails   bool
	}{
		{"curl -sS http://a.example.com/x", "GET a.example.com /x 0", false},
		{"curl -sSk https://a.example.com/x", "GET a.example.com /x 0", false},
		{"curl -sS http://8.8.8.8/", "nsrun: 8.8.8.8:80 is not in the network's allow-list; add --net allow:8.8.8.8:80", false},
		{"curl -sS http://2130706433/", "", true}, // curl makes it 127.0.0.1, the sandbox's own loopback
		{"curl -sS http://evil.example.org/", "Could not resolve host", true},
		{"curl -sSk --connect-to evil.example.org:443:a.example.com:443 https://evil.example.org/", "alert", true},
		{"curl -sS --connect-to evil.example.org:80:a.example.com:80 http://evil.example.org/", "403 ", false},
		{"curl -sS --noproxy * -x http://127.0.0.1:1 http://8.8.4.4/", "nsrun: 8.8.4.4:80", false},
		{"curl -sS -x http://127.0.0.1:15001 http://a.example.com/y", "GET a.example.com /y 0", false},
		{"curl -sSk -x http://127.0.0.1:15001 https://a.example.com/y", "GET a.example.com /y 0", false},
		{"curl -sSk -x socks5h://127.0.0.1:15001 https://a.example.com/y", "GET a.example.com /y 0", false},
		{"curl -sSk -x http://127.0.0.1:15001 https://evil.example.org/", "403", true},
		{"openssl s_client -connect a.example.com:443 -servername evil.example.org", "alert access denied", true},
		{"openssl s_client -connect 8.8.8.8:443", "alert access denied", true},
		{"dig +short +tcp a.example.com", "198.1", false},
		{"dig evil.example.org", "allow-list", false},
	} {
		words := strings.Fields(x.command)
		if _, err := exec.LookPath(words[0]); err != nil {
			t.Logf("%s is not installed", words[0])
			continue
		}
		want := x.want
		if strings.HasPrefix(want, "403 ") {
			want = "the request is for evil.example.org"
		}
		begin := time.Now()
		out, err := b.exec(words...)
		t.Logf("%v %s", time.Since(begin).Round(time.Millisecond), x.command)
		assert.Contains(t, out, want, x.command)
		assert.Equal(t, x.fails, err != nil, "%s: %v: %s", x.command, err, out)
	}
	if _, err := exec.LookPath("python3"); err == nil {
		out, err := b.exec("python3", "-c", python)
		require.NoError(t, err, out)
		assert.Contains(t, out, "SSH-2.0-test")
		_, err = b.exec("python3", "-c", tunnel)
		assert.Error(t, err)
		_, err = find(h.refused(), opResolve, "secret.attacker.org", netmessage.Unlisted)
		assert.NoError(t, err)
	}
	for _, name := range h.looked() {
		assert.Contains(t, []string{"a.example.com", "git.example.com"}, name)
	}
}
