package probe

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// program writes a shell script into a new directory and returns that.
func program(t *testing.T, name, script string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return dir
}

func TestBackendVersions(t *testing.T) {
	for i, printed := range []string{"bubblewrap 0.11.0", "28.1.1", "podman version 5.0.0"} {
		e := backends[i]
		dir := program(t, string(e.name), "echo "+printed)
		got, err := e.probe("relative:/no/such:"+dir, testenv.Limit(0))
		require.NoError(t, err)
		words := strings.Fields(printed)
		assert.Equal(t, words[len(words)-1]+" ("+filepath.Join(dir, string(e.name))+")", got)
	}
}

// TestInstalledIsNotEnough asks a bubblewrap that has a version and makes no sandbox, and one that makes it.
func TestInstalledIsNotEnough(t *testing.T) {
	bwrap := backends[0]
	_, err := bwrap.probe(program(t, "bwrap", `[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit; echo "bwrap: setting up uid map: Permission denied" >&2; exit 1`), testenv.Limit(0))
	var u *fault.Error
	require.ErrorAs(t, err, &u)
	assert.Contains(t, u.Err.Error(), "bwrap: setting up uid map: Permission denied")
	assert.NotEmpty(t, u.Hint)
	got, err := bwrap.probe(program(t, "bwrap", `[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit; shift $(($# - 1)); echo "bwrap: execvp $1: No such file or directory" >&2; exit 1`), testenv.Limit(0))
	require.NoError(t, err)
	assert.Contains(t, got, "0.8.0")
}

func TestBackendThatIsNotThere(t *testing.T) {
	_, err := backends[0].probe("", testenv.Limit(0))
	assert.EqualError(t, err, "there is no bwrap on PATH")
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/proc/self/exe", filepath.Join(dir, "bwrap")))
	assert.Empty(t, find(dir, "bwrap"), "this program under another name is not another backend")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "podman"), nil, 0o644))
	assert.Empty(t, find(dir, "podman"), "it cannot be executed")
	t.Chdir(program(t, "docker", "true"))
	assert.Empty(t, find(".", "docker"), "a relative directory of PATH is whose?")
}

func TestADaemonThatDoesNotAnswer(t *testing.T) {
	t.Setenv("DOCKER_HOST", "")
	docker := backends[1]
	for _, c := range []struct{ name, script, detail, fix string }{
		{"nobody listens", "echo WARNING >&2; echo 'Cannot connect to the Docker daemon at unix:///run/x.sock. Is it running?' >&2; exit 1",
			"the daemon at unix:///run/x.sock does not answer: Cannot connect", "start docker"},
		{"not for this user", "echo 'permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get x' >&2; exit 1",
			"the daemon at unix:///var/run/docker.sock does not answer: permission denied", "run as root"},
		{"silence", "exit 3", "the daemon at unix:///var/run/docker.sock does not answer: exit status 3", "start docker"},
	} {
		_, err := docker.probe(program(t, "docker", c.script), testenv.Limit(0))
		var u *fault.Error
		require.ErrorAs(t, err, &u, c.name)
		assert.Contains(t, u.Err.Error(), c.detail, c.name)
		assert.Contains(t, u.Hint, strings.Fields(c.fix)[0], c.name)
	}
	t.Setenv("DOCKER_HOST", "tcp://10.0.0.9:2375")
	_, err := docker.probe(program(t, "docker", "exit 1"), testenv.Limit(0))
	assert.ErrorContains(t, err, "the daemon at tcp://10.0.0.9:2375 does not answer")
}

func TestABackendThatHangsIsKilledWithAllItStarted(t *testing.T) {
	printed := filepath.Join(t.TempDir(), "pid")
	dir := program(t, "docker", "sleep 1000 & echo $! >"+printed+"; wait")
	var text []byte
	for timeout := testenv.Scale(200 * time.Millisecond); len(text) == 0; timeout *= 2 { // until the script has the time to write the pid
		require.Less(t, timeout, testenv.Limit(0), "the script writes the pid")
		testenv.Returns(t, "probe", func() {
			_, err := backends[1].probe(dir, timeout)
			assert.ErrorContains(t, err, "no answer within "+timeout.String())
		})
		text, _ = os.ReadFile(printed)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	testenv.Eventually(t, func() bool { return gone(pid) }, "the end of its child")
}

// gone reports whether a process has ended, reaped by whoever has become its parent or not.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestBackendsLeavesTheCallersFactsAlone(t *testing.T) {
	t.Setenv("PATH", "")
	f := facts.Facts{}.With(facts.Seccomp, facts.Answer{State: facts.Yes})
	got := Backends(f)
	assert.Equal(t, facts.Answer{State: facts.No, Detail: "there is no podman on PATH"}, got.Answers[facts.Podman])
	assert.Equal(t, facts.Yes, got.State(facts.Seccomp))
	assert.NotContains(t, f.Answers, facts.Podman)
}

// TestPodmanNeedsUserNamespaces, and without them a root that may mount.
func TestPodmanNeedsUserNamespaces(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "podman"), []byte("#!/bin/sh\necho podman version 5.0.0\n"), 0o755))
	t.Setenv("PATH", dir)
	without := facts.Yes
	if !mayMount() {
		without = facts.No
	}
	for state, want := range map[facts.State]facts.State{facts.Yes: facts.Yes, facts.Unknown: facts.Yes, facts.No: without} {
		got := Backends(facts.Facts{}.With(facts.UserNS, facts.Answer{State: state}))
		assert.Equal(t, want, got.State(facts.Podman), "%v", got.Answers[facts.Podman])
	}
}

func TestAcknowledgements(t *testing.T) {
	ack := func(kind uint16, code int32) []byte {
		b := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint16(b[4:], kind)
		return binary.NativeEndian.AppendUint32(b, uint32(code))
	}
	assert.Equal(t, unix.EPERM, ackErrno(ack(unix.NLMSG_ERROR, -int32(unix.EPERM))))
	assert.Equal(t, unix.EPROTO, ackErrno(ack(3, 0)))
	assert.Equal(t, unix.EPROTO, ackErrno(nil))
}
