package network

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// holding is a script that keeps a connection to listed.test, by which it has received something when the file "connected" is there, until the file "go" is.
// %s goes on there, with the connection s.
const holding = `/usr/bin/python3 -c "
import os, socket, time
s = socket.create_connection(('listed.test', 7000), 20)
at = s.getpeername()[0]
s.sendall(b'over\n'); s.recv(100)
open('connected', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
%s
"`

// hold starts nsrun with that script, after others, and returns when it is connected, with the processes that nsrun has started.
func (w *world) hold(t *testing.T, rest string, before ...string) (r running, children map[int]string) {
	t.Helper()
	r = w.start(t, []string{built.nsrun}, allow("listed.test:7000"), strings.Join(before, "")+fmt.Sprintf(holding, rest))
	return r, r.connected(t, w)
}

// connected waits until the script is connected, and returns the processes that were started for it.
func (r running) connected(t *testing.T, w *world) (children map[int]string) {
	t.Helper()
	testenv.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.work, "connected")); return err == nil }, "a connection")
	children = descendants(r.cmd.Process.Pid)
	require.Len(t, named(children, "nsrun-helper"), 1, "%v", children)
	require.NotEmpty(t, named(children, "python3"), "%v", children)
	return children
}

// release lets the script go on.
func (w *world) release(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.work, "go"), nil, 0o644))
}

// descendants are the processes that pid has started, and those that these have, each with its name.
func descendants(pid int) map[int]string {
	parents, names := map[int]int{}, map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		end := strings.LastIndexByte(string(data), ')')
		if err != nil || end < 0 {
			continue // it has ended
		}
		fields := strings.Fields(string(data[end+1:])) // proc_pid_stat(5): state and ppid follow the name
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if _, name, _ := strings.Cut(string(data[:end]), "("); fields[0] != "Z" {
			parents[child], names[child] = mustInt(fields[1]), name
		}
	}
	below := map[int]string{}
	for found := true; found; {
		found = false
		for child, parent := range parents {
			if _, known := below[child]; !known && (parent == pid || below[parent] != "") {
				below[child], found = names[child], true
			}
		}
	}
	return below
}

func mustInt(text string) int { n, _ := strconv.Atoi(text); return n }

// named lists the processes with a name that begins so.
func named(list map[int]string, name string) (pids []int) {
	for pid, n := range list {
		if strings.HasPrefix(n, name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until none of the processes runs, and until the server has seen the end of every connection.
func gone(t *testing.T, children map[int]string) {
	t.Helper()
	begin := time.Now()
	for pid, name := range children {
		testenv.Eventually(t, func() bool {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || !strings.Contains(string(data), "("+name+")") || strings.Contains(string(data), ") Z ")
		}, "the end of "+name)
	}
	testenv.Eventually(t, func() bool { return hitsOf("tcp 7000") == hitsOf("end of tcp 7000") }, "the end of all connections")
	t.Logf("%d processes have ended within %v", len(children), time.Since(begin))
}

// TestNothingIsLeftAfterARun: neither the helper, nor a process of the sandbox, nor a connection, even if the command has not ended that itself.
func TestNothingIsLeftAfterARun(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		r, children := w.hold(t, "os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '1000')")
		w.release(t)
		got := r.wait(t)
		assert.Equal(t, 0, got.Code, got.out)
		for pid := range children {
			assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "when nsrun has ended: %s", children[pid])
		}
		gone(t, children)
	})
}

// TestWhatIsSentLast arrives: a command that ends at once after it has sent something need not wait for an answer.
func TestWhatIsSentLast(t *testing.T) {
	const times = 5
	eachUser(t, func(t *testing.T, w *world) {
		packets := hitsOf(fmt.Sprintf("udp %d", udpPort))
		for i := range times {
			path := fmt.Sprintf("/last-of-%s-%d", w.name, i)
			got := w.run(t, allow("far.test:80", fmt.Sprintf("udp://far.test:%d", udpPort)), fmt.Sprintf(`bash -c '
				printf last >/dev/udp/far.test/%d
				printf "GET %s HTTP/1.1\r\nHost: far.test\r\n\r\n" >/dev/tcp/far.test/80'`, udpPort, path))
			assert.Equal(t, 0, got.Code, got.out)
			assert.NotContains(t, fmt.Sprint(got.Receipt.Notes), "sent last")
			testenv.Eventually(t, func() bool { return hitsOf("far.test "+path) == 1 }, "the request of a run")
		}
		testenv.Eventually(t, func() bool { return hitsOf(fmt.Sprintf("udp %d", udpPort)) == packets+times }, "the packets")
	})
}

// TestWhatCannotBePassedOn in the time that there is at the end is lost, and the result says so.
func TestWhatCannotBePassedOn(t *testing.T) {
	w := newWorld(t, "root", 0, 0)
	begin := time.Now()
	got := w.run(t, allow(fmt.Sprintf("listed.test:%d", deafPort)), fmt.Sprintf(`/usr/bin/python3 -c "
import socket
s = socket.create_connection(('listed.test', %d), 20)
s.setblocking(False)
try:
    while True: s.send(bytes(65536))
except BlockingIOError: print('full')"`, deafPort))
	assert.Equal(t, 0, got.Code, got.out)
	assert.Contains(t, got.out, "full")
	assert.Contains(t, fmt.Sprint(got.Receipt.Notes), "network: what the command sent last was not passed on within a second, and is lost, on 1 of its connections")
	assert.GreaterOrEqual(t, time.Since(begin), time.Second)
}

// TestNothingIsLeftOfNsrunThatIsKilled: the helper and the sandbox end with it.
func TestNothingIsLeftOfNsrunThatIsKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		r, children := w.hold(t, "")
		require.NoError(t, r.cmd.Process.Kill())
		_ = r.cmd.Wait()
		gone(t, children)
	})
}

// TestAHelperThatIsKilled leaves no way out: the command's connections end, and there are no new ones. The result has a note.
func TestAHelperThatIsKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		r, children := w.hold(t, `
def attempt(what, f):
    try: print(what, 'REACHED', f())
    except OSError as e: print(what, 'failed', type(e).__name__)
def old():
    s.sendall(b'over\n')
    if not s.recv(100): raise OSError('the end')
    return 'an answer'
def udp():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(1); u.connect(('203.0.113.10', 9999)); u.send(b'over'); return u.recv(100)
attempt('old', old)
attempt('new', lambda: socket.create_connection((at, 7000), 5))
attempt('name', lambda: socket.getaddrinfo('listed.test', 7000))
attempt('literal', lambda: socket.create_connection(('203.0.113.10', 7000), 5))
attempt('udp', udp)`)
		require.NoError(t, unix.Kill(named(children, "nsrun-helper")[0], unix.SIGKILL))
		testenv.Eventually(t, func() bool { return hitsOf("tcp 7000") == hitsOf("end of tcp 7000") }, "the end of the connection")
		forget()
		w.release(t)
		got := r.wait(t)
		asked, packets := left()
		assert.Empty(t, asked)
		assert.Empty(t, packets)
		for _, what := range []string{"old", "new", "name", "literal", "udp"} {
			assert.Contains(t, got.out, what+" failed")
		}
		assert.Equal(t, 0, got.Code, got.out)
		require.NotEmpty(t, got.Receipt.Notes, got.out)
		assert.Contains(t, fmt.Sprint(got.Receipt.Notes), "network helper: it ended before the command did")
		assert.Contains(t, fmt.Sprint(got.Receipt.Notes), "it reported no summary")
		gone(t, children)
	})
}

// TestAHelperThatIsStopped does not keep nsrun from ending.
func TestAHelperThatIsStopped(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		r, children := w.hold(t, "")
		require.NoError(t, unix.Kill(named(children, "nsrun-helper")[0], unix.SIGSTOP))
		w.release(t)
		got := r.wait(t)
		assert.Equal(t, 0, got.Code, got.out)
		assert.Contains(t, fmt.Sprint(got.Receipt.Notes), "network helper: it ended before the command did, or could not report")
		gone(t, children)
	})
}

// TestAHelperThatIsNone: without a helper that serves, nothing runs, and nsrun says why.
func TestAHelperThatIsNone(t *testing.T) {
	for _, row := range []struct {
		name, script string // of what is there instead; none without a script
		mode         os.FileMode
		want         string
	}{
		{name: "missing", want: "install nsrun-helper beside nsrun"},
		{name: "not executable", script: "#!/bin/sh\n", mode: 0o644, want: "permission denied"},
		{name: "no program", script: "\x00\x01", mode: 0o755, want: "exec format error"},
		{name: "fails", script: "#!/bin/sh\nexit 1\n", mode: 0o755, want: "it ended before it was ready"},
		{name: "fails later", script: "#!/bin/sh\nsleep 1\nexit 1\n", mode: 0o755, want: "it ended before it was ready"},
		{name: "succeeds", script: "#!/bin/sh\nexit 0\n", mode: 0o755, want: "it ended before it was ready"},
		{name: "speaks another language", script: "#!/bin/sh\necho hello >&3\nexec sleep 1000\n", mode: 0o755, want: "it sent something that is no event"},
		{name: "is silent", script: "#!/bin/sh\nexec sleep 1000\n", mode: 0o755, want: "it was not ready in time"},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachUser(t, func(t *testing.T, w *world) {
				dir, err := os.MkdirTemp(built.room, "alone-")
				require.NoError(t, err)
				require.NoError(t, os.Chmod(dir, 0o755))
				require.NoError(t, os.Link(built.nsrun, dir+"/nsrun"))
				if row.script != "" {
					require.NoError(t, os.WriteFile(dir+"/nsrun-helper", []byte(row.script), row.mode))
				}
				r := w.start(t, []string{dir + "/nsrun"}, append(allow("listed.test:7000"), "--timeout", "3s"), "touch ran")
				testenv.Returns(t, "nsrun", func() { _ = r.cmd.Wait() })
				assert.Equal(t, 125, r.cmd.ProcessState.ExitCode(), r.out.String())
				assert.Contains(t, r.out.String(), row.want)
				assert.Contains(t, r.out.String(), "nsrun-helper")
				assert.NoFileExists(t, filepath.Join(w.work, "ran"))
			})
		})
	}
}

// TestARunThatIsEndedEarly still reports what it has reached and what was refused.
func TestARunThatIsEndedEarly(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		r, children := w.hold(t, "", "curl -s http://unlisted.test; ")
		require.NoError(t, r.cmd.Process.Signal(unix.SIGTERM))
		got := r.wait(t)
		assert.NotEqual(t, 0, got.Code)
		require.NotNil(t, got.Receipt.Allow)
		require.Len(t, got.Receipt.Allow.Reached, 1, got.out)
		assert.EqualValues(t, len("over\n"), got.Receipt.Allow.Reached[0].Received)
		_, ok := got.refusal("unlisted.test")
		assert.True(t, ok, "%+v", got.Denials)
		gone(t, children)
	})
}

// TestTwoRuns at once have lists of their own.
func TestTwoRuns(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		first, children := w.hold(t, "s.sendall(b'still\\n'); print(s.recv(100)); socket.create_connection(('other.test', 7000), 20)")
		second := newWorld(t, w.name, w.uid, w.gid)
		got := second.run(t, allow("other.test:7000"), tcpTo("other.test", "7000")+"; "+tcpTo("listed.test", "7000"))
		assert.Contains(t, got.out, "over")
		assert.True(t, got.refusedFor("listed.test", "no rule names listed.test"), "%+v", got.Denials)
		w.release(t)
		got = first.wait(t)
		assert.Contains(t, got.out, "b'still")
		assert.True(t, got.refusedFor("other.test", "no rule names other.test"), "%+v", got.Denials)
		gone(t, children)
	})
}

// TestNothingIsLeftOfALibraryThatIsKilled: as of nsrun, whose place a program that links package nsrun takes, with a process that forks for it.
func TestNothingIsLeftOfALibraryThatIsKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		var out bytes.Buffer
		r := running{cmd: w.command(built.room+"/library", "run", w.work, "listed.test:7000", "sh", "-c", fmt.Sprintf(holding, "")), out: &out}
		r.cmd.Stdout, r.cmd.Stderr = &out, &out
		require.NoError(t, r.cmd.Start())
		children := r.connected(t, w)
		require.NoError(t, r.cmd.Process.Kill())
		_ = r.cmd.Wait()
		gone(t, children)
	})
}
