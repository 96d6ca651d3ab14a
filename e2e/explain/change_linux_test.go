package explain

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// changeRow is an act that is refused, and the change that allows it.
type changeRow struct {
	kind, rule string // of the denial, by the backend native
	flag       string // of its change, without a path
	act        string // of the hostile program; {hidden} and {shared} are directories
	noLandlock string // why the backend landlock reports something else
	noNative   string
}

var changeRows = []changeRow{
	{kind: "fs", rule: "view", flag: "--ro", act: "open {hidden}/file"},
	{kind: "fs", rule: "view", flag: "--rw", act: "create {hidden}/file"},
	{kind: "fs", rule: "read-only", flag: "--rw", act: "create {shared}/file"},
	{kind: "fs", rule: "read-only", flag: "--rw", act: "create {shared}/new"},
	{kind: "fs", rule: "read-only", flag: "--rw", act: "rw {shared}/fifo"},
	{kind: "fs", rule: "view", flag: "--rw", act: "rw {hidden}/fifo"},
	{kind: "exec", rule: "view", flag: "--ro", act: "exec {hidden}/hostile open /etc/passwd"},
	{kind: "fs", rule: "view", flag: "--socket", act: "unix {hidden}/socket", noLandlock: "it refuses sockets of AF_UNIX as a whole"},
	{kind: "syscall", rule: "seccomp", flag: "--seccomp build", act: "traceme"},
	{kind: "net", rule: "network", flag: "--net host", act: "udp {address}", noLandlock: "it refuses the socket"},
	{kind: "socket", rule: "seccomp", flag: "--net host", act: "udp {address}", noNative: "its network is empty"},
}

// TestChangesAllow makes each change that a report offers, by its flag and in a manifest: the same act succeeds then, and nothing is refused any more.
func TestChangesAllow(t *testing.T) {
	for _, w := range worlds(t) {
		for _, backend := range []string{"native", "landlock"} {
			for _, r := range changeRows {
				if backend == "landlock" && r.noLandlock != "" || backend == "native" && r.noNative != "" {
					continue
				}
				if (strings.HasPrefix(w.work, "/var/tmp/") || strings.HasPrefix(w.work, "/tmp/")) && strings.HasSuffix(r.act, "{shared}/fifo") && backend == "native" {
					continue // where the sandbox has a directory of its own, it covers FIFOs of what is read-only, and they are not refused
				}
				t.Run(w.name+"/"+backend+"/"+r.flag+" "+r.act, func(t *testing.T) {
					w.fresh(t)
					r.allows(t, w, backend)
				})
			}
		}
	}
}

func (r changeRow) allows(t *testing.T, w *world, backend string) {
	for _, dir := range []string{w.hidden, w.shared} {
		w.write(t, dir+"/file", "text", 0o600)
		require.NoError(t, unix.Mkfifo(dir+"/fifo", 0o600))
		w.own(t, dir+"/fifo")
	}
	data, err := os.ReadFile(built.hostile)
	require.NoError(t, err)
	w.write(t, w.hidden+"/hostile", string(data), 0o755)
	defer w.listen(t).Close()
	act := []string{built.hostile}
	for _, word := range strings.Fields(r.act) {
		if word == "{address}" {
			act = append(act, strings.Split(hostAddress(t), ".")...)
			continue
		}
		act = append(act, strings.NewReplacer("{hidden}", w.hidden, "{shared}", w.shared).Replace(word))
	}
	out, err := w.command(act...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "OK 1\n", string(out), "control: it succeeds unsandboxed")
	os.Remove(w.shared + "/new")

	flags := "--explain --backend " + backend
	refused := w.explained(t, flags, act...)
	require.NotContains(t, refused.out, "OK 1\n", "it is refused")
	require.NotEmpty(t, refused.Denials, "%s %+v", refused.out, refused.Receipt.Explain)
	d := refused.Denials[0]
	assert.Equal(t, r.kind, d.Kind)
	if rule := r.rule; backend == "landlock" && rule != "seccomp" {
		assert.Equal(t, "landlock", d.Rule, rule)
	} else {
		assert.Equal(t, rule, d.Rule)
	}
	require.NotNil(t, d.Change)
	assert.True(t, strings.HasPrefix(d.Change.Flag, r.flag), d.Change.Flag)

	allowed := w.explained(t, flags+" "+d.Change.Flag, act...)
	assert.Contains(t, allowed.out, "OK 1\n", "by its flag: %s", d.Change.Flag)
	assert.Empty(t, allowed.Denials)
	manifest := filepath.Join(w.aside, "m.json")
	w.write(t, manifest, `{"name": "change", `+d.Change.Manifest+`}`, 0o644)
	os.Remove(w.shared + "/new")
	allowed = w.explained(t, flags+" --manifest "+manifest, act...)
	assert.Contains(t, allowed.out, "OK 1\n", "by a manifest: %s", d.Change.Manifest)
	assert.Empty(t, allowed.Denials)
}

// listen accepts connections at the socket of the hidden directory.
func (w *world) listen(t *testing.T) net.Listener {
	t.Helper()
	// A socket's name has at most 107 bytes.
	l, err := net.Listen("unix", w.hidden+"/socket")
	require.NoError(t, err)
	w.own(t, w.hidden+"/socket")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l
}

// hostAddress is an IPv4 address of this host, but of no loopback interface.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	need(t, false, "an IPv4 address")
	return ""
}
