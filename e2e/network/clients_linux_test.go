package network

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// client is an unmodified program that reaches {HOST}, which is replaced in its script.
type client struct {
	name, program, script string // without a program it is one of these tests' own
	want                  string // in what it prints, of a listed host
	port                  int
	file                  string // that it runs, in the directory that sandboxes see
	text                  string
}

var clients = []client{
	{name: "curl http", program: "curl", script: `curl -sS http://{HOST}/hello`, want: "hello from {HOST} by HTTP/1.1", port: 80},
	{name: "curl https", program: "curl", script: `curl -sS --http1.1 --cacert {CA} https://{HOST}/hello`, want: "hello from {HOST} by HTTP/1.1", port: 443},
	{name: "curl h2", program: "curl", script: `curl -sS --http2 --cacert {CA} https://{HOST}/hello`, want: "hello from {HOST} by HTTP/2.0", port: 443},
	{name: "curl twice", program: "curl", script: `curl -sS http://{HOST}/hello http://{HOST}/hello`, want: "hello from {HOST} by HTTP/1.1\nhello from {HOST} by HTTP/1.1", port: 80},
	{name: "curl upload", program: "curl", script: `head -c 3000000 /dev/zero | curl -sS --cacert {CA} --data-binary @- https://{HOST}/upload`, want: "3000000 bytes", port: 443},
	{name: "curl download", program: "curl", script: `curl -sS --cacert {CA} https://{HOST}/download | sha256sum`, want: downloadSum, port: 443},
	{name: "half-closed", program: "/usr/bin/python3", script: `/usr/bin/python3 -c "
import hashlib, socket, threading
s = socket.create_connection(('{HOST}', 7000), 20)
def send():
    for i in range(200): s.sendall(bytes([i]) * 10000)
    s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send); t.start()
h, n = hashlib.sha256(), 0
while b := s.recv(65536): h.update(b); n += len(b)
print(n, h.digest() == hashlib.sha256(b''.join(bytes([i]) * 10000 for i in range(200))).digest())"`, want: "2000000 True", port: echoPort},
	{name: "wget", program: "wget", script: `wget -q -O - --ca-certificate={CA} https://{HOST}/hello`, want: "hello from {HOST}", port: 443},
	{name: "python urllib", program: "/usr/bin/python3", script: `SSL_CERT_FILE={CA} /usr/bin/python3 -c "import urllib.request; print(urllib.request.urlopen('https://{HOST}/hello', timeout=20).read().decode())"`,
		want: "hello from {HOST}", port: 443},
	{name: "python http.client", program: "/usr/bin/python3", script: `/usr/bin/python3 -c "
import http.client
c = http.client.HTTPConnection('{HOST}', timeout=20)
for _ in range(3):
    c.request('GET', '/hello'); print(c.getresponse().read().decode())"`, want: "hello from {HOST}", port: 80},
	{name: "node fetch", program: "node", script: `NODE_EXTRA_CA_CERTS={CA} node -e "fetch('https://{HOST}/hello').then(r => r.text()).then(console.log, e => { console.log(e.cause); process.exit(1) })"`,
		want: "hello from {HOST}", port: 443},
	{name: "openssl", program: "openssl", script: `printf 'GET /hello HTTP/1.0\r\nHost: {HOST}\r\n\r\n' | openssl s_client -quiet -CAfile {CA} -servername {HOST} -connect {HOST}:443 2>&1`, want: "hello from {HOST}", port: 443},
	{name: "redis-cli", program: "redis-cli", script: `redis-cli -h {HOST} ping`, want: "PONG", port: redisPort},
	{name: "bash /dev/tcp", program: "bash", script: `bash -c 'exec 3<>/dev/tcp/{HOST}/2222; head -n 1 <&3'`, want: "220 banner", port: bannerPort},
	{name: "ssh", program: "ssh", script: `ssh -v -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null {HOST} true 2>&1 | grep 'remote software version'`,
		want: "remote software version test", port: sshPort},
	{name: "psql", program: "psql", script: `psql 'host={HOST} user=a dbname=a' -c 'select 1' 2>&1 | grep FATAL`, want: "no such role at the tests' server", port: postgresPort},
	{name: "Go keep-alive", script: `{ROOM}/goclient keepalive {HOST}`, want: "hello from {HOST} by HTTP/1.1\nhello from {HOST} by HTTP/1.1\nhello from {HOST} by HTTP/1.1\nconnections: 1\n", port: 80},
	{name: "Go h2", script: `SSL_CERT_FILE={CA} {ROOM}/goclient h2 {HOST}`, want: "hello from {HOST} by HTTP/2.0\nhello from {HOST} by HTTP/2.0\nhello from {HOST} by HTTP/2.0\nconnections: 1\n", port: 443},
	{name: "Go upgrade", script: `{ROOM}/goclient upgrade {HOST}`, want: "echo \"\\x00\\x01 no HTTP\\n\"\necho \"GET / HTTP/1.1\\n\"\n", port: 80},
	{name: "git", program: "git", script: `git -c http.sslCAInfo={CA} clone -q https://{HOST}/repo.git copy-$$ && cat copy-$$/file && rm -rf copy-$$`, want: "kept in git", port: 443},
	{name: "java", program: "java", script: `java {ROOM}/Get.java http://{HOST}/hello`, want: "hello from {HOST}", port: 80, file: "Get.java",
		text: `public class Get { public static void main(String[] a) throws Exception {
	System.out.println(new String(new java.net.URL(a[0]).openStream().readAllBytes())); } }`},
}

// prepared makes the files that clients take and servers give, once.
func prepared(t *testing.T) {
	t.Helper()
	for _, c := range clients {
		if c.file != "" {
			require.NoError(t, os.WriteFile(filepath.Join(shared(), c.file), []byte(c.text), 0o644))
		}
	}
	www := filepath.Join(built.room, "www")
	if _, err := os.Stat(www + "/repo.git"); err == nil {
		return
	}
	for _, line := range []string{"git init -q src", "cd src && echo kept in git >file && git add file && git -c user.name=a -c user.email=a@b.test commit -q -m one",
		"mkdir -p " + www, "git clone -q --bare src " + www + "/repo.git", "git -C " + www + "/repo.git update-server-info"} {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = built.room, []string{"HOME=" + built.room, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
	}
}

// for one host.
func (c client) at(host string) string {
	return strings.NewReplacer("{HOST}", host, "{CA}", filepath.Join(shared(), "ca.pem"), "{ROOM}", shared()).Replace(c.script)
}

// TestClients: each reaches what is listed, and fails to reach what is not, with a denial that names the rule; it does reach that without a sandbox.
func TestClients(t *testing.T) {
	prepared(t)
	eachUser(t, func(t *testing.T, w *world) {
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				if _, err := exec.LookPath(c.program); err != nil && c.program != "" {
					missing(t, c.program)
				}
				forget()
				got := w.run(t, allow(fmt.Sprintf("listed.test:%d", c.port)), c.at("listed.test"))
				assert.Contains(t, got.out, strings.ReplaceAll(c.want, "{HOST}", "listed.test"))
				assert.Equal(t, 0, got.Code, got.out)
				asked, _ := left()
				assert.Equal(t, []string{"listed.test"}, asked)
				require.NotNil(t, got.Receipt.Allow)
				require.Len(t, got.Receipt.Allow.Reached, 1, got.out)
				assert.Equal(t, "listed.test", got.Receipt.Allow.Reached[0].Name)
				assert.Positive(t, got.Receipt.Allow.Reached[0].Received)

				forget()
				got = w.run(t, allow(fmt.Sprintf("listed.test:%d", c.port)), c.at("unlisted.test"))
				assert.NotContains(t, got.out, strings.ReplaceAll(c.want, "{HOST}", "unlisted.test"))
				asked, packets := left()
				assert.Empty(t, asked)
				assert.Empty(t, packets)
				_, ok := got.refusal("unlisted.test")
				assert.True(t, ok, "%v", got.Denials)

				free := w.command("sh", "-c", c.at("unlisted.test")) // the positive control
				out, err := free.CombinedOutput()
				assert.NoError(t, err)
				assert.Contains(t, string(out), strings.ReplaceAll(c.want, "{HOST}", "unlisted.test"))
			})
		}
	})
}

// missing skips for want of a program; in CI that is a failure.
func missing(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing", program)
	}
	t.Skipf("%s is missing", program)
}
