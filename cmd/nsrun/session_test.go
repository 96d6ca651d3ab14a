package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// client talks with one nsrun session.
type client struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	raw io.ReadCloser
	id  int

	stderr bytes.Buffer
}

// connect starts nsrun session.
func connect(t *testing.T) *client {
	t.Helper()
	needSandbox(t)
	c := &client{t: t, cmd: exec.Command("nsrun", "session")}
	c.cmd.Stderr = &c.stderr
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	c.raw, err = c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReaderSize(c.raw, 1<<20)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		if t.Failed() {
			t.Log(c.stderr.String())
		}
		nothingLeft(t)
	})
	return c
}

// message is any line that comes.
type message struct {
	ID    any
	OK    map[string]any
	Error map[string]any
	// Of events.
	Stdout, Stderr any
	Closed         string
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	require.NoError(c.t, err)
}

func (c *client) next() (m message) {
	c.t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	line, err := c.out.ReadBytes('\n')
	require.NoError(c.t, err, "no line comes")
	require.NoError(c.t, json.Unmarshal(line, &m), "%s", line)
	return m
}

// ask sends a request without its id and returns the answer. Nothing else may be under way.
func (c *client) ask(request string) message {
	c.t.Helper()
	c.id++
	c.send(`{"id":%d,%s`, c.id, strings.TrimPrefix(request, "{"))
	return c.next()
}

// end waits for the end and returns the exit code.
func (c *client) end() int {
	c.t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func TestSessionRunsCommands(t *testing.T) {
	c := connect(t)
	work := t.TempDir()
	manifest := filepath.Join(t.TempDir(), "m.json")
	require.NoError(t, os.WriteFile(manifest, []byte(`{"workspace":`+strconv.Quote(work)+`,"workspace_at":"/workspace","limits":{"timeout":"20s"}}`), 0o644))
	opened := c.ask(`{"op":"open","manifest":` + strconv.Quote(manifest) + `}`).OK
	assert.Equal(t, "/workspace", opened["dir"])
	assert.Equal(t, "native", opened["backend"])
	assert.Contains(t, opened["receipt"].(map[string]any)["holds"], "network")

	ok := c.ask(`{"op":"exec","args":["sh","-c","cat >a; cat a; pwd; echo $X >&2"],"stdin":"é","env":{"X":"y"}}`).OK
	assert.Equal(t, "é/workspace\n", ok["stdout"])
	assert.Equal(t, "y\n", ok["stderr"])
	assert.Equal(t, "ok", ok["verdict"])
	assert.Nil(t, ok["receipt"])
	host := c.ask(`{"op":"resolve","path":"a","access":"write"}`).OK["path"]
	assert.Equal(t, filepath.Join(work, "a"), host)

	ok = c.ask(`{"op":"exec","shell":"head -c 3000000 /dev/zero; kill -9 $$","receipt":true,"max_output":5}`).OK
	assert.Equal(t, "signal", ok["verdict"])
	assert.Equal(t, "SIGKILL", ok["signal"])
	assert.Equal(t, "\x00\x00\x00\x00\x00", ok["stdout"])
	assert.Equal(t, true, ok["stdout_truncated"])
	assert.EqualValues(t, 3000000, ok["stdout_bytes"])
	assert.NotNil(t, ok["receipt"])

	ok = c.ask(`{"op":"exec","args":["sleep","100"],"timeout":0.2}`).OK
	assert.Equal(t, "timeout", ok["verdict"])
	ok = c.ask(`{"op":"exec","args":["stty","size"],"terminal":{"rows":7,"cols":9}}`).OK
	assert.Equal(t, "7 9\r\n", ok["stdout"])
	c.ask(`{"op":"exec","shell":"touch /tmp/here"}`)
	assert.EqualValues(t, 0, c.ask(`{"op":"exec","args":["ls","/tmp/here"]}`).OK["code"], "the session stays")
	assert.EqualValues(t, 2, c.ask(`{"op":"exec","args":["ls","/tmp/here"],"fresh":true}`).OK["code"], "until it is asked for a fresh one")
	assert.Equal(t, []any{""}, c.ask(`{"op":"close"}`).OK["closed"])
	require.NoError(t, c.in.Close())
	assert.Zero(t, c.end())
}

func TestSessionTellsOutcomesApart(t *testing.T) {
	c := connect(t)
	for _, k := range []struct{ request, kind, field, name string }{
		{`{"op":"open","policy":{"network":"allow"}}`, "refused", "network", ""},
		{`{"op":"open","policy":{"workspace":"relative"}}`, "refused", "workspace", ""},
		{`{"op":"open","manifest":"/no/such/file"}`, "refused", "manifest", ""},
		{`{"op":"open","policy":{},"dir":"/no/such/dir"}`, "refused", "policy", ""},
		{`{"op":"exec","args":["true"]}`, "closed", "session", ""},
		{`{"op":"open","policy":{"limits":{"timeout":"5s"}}}`, "", "", ""},
		{`{"op":"exec","args":["true"],"timeout":"6s"}`, "refused", "timeout", ""},
		{`{"op":"exec","args":["true"],"cwd":"/no/such"}`, "refused", "cwd", ""},
		{`{"op":"resolve","path":"/proc/self/environ"}`, "refused", "path", ""},
		{`{"op":"exec","args":["no-such-program"]}`, "not-found", "", "no-such-program"},
		{`{"op":"start","args":["no-such-program"]}`, "not-found", "", "no-such-program"},
		{`{"op":"exec","args":["/etc/passwd"]}`, "setup", "", ""},
		{`{"op":"exec","args":["false"]}`, "", "", ""},
		{`{"op":"exec","arg":["false"]}`, "protocol", "arg", ""},
	} {
		m := c.ask(k.request)
		if k.kind == "" {
			assert.NotNil(t, m.OK, "%s: %v", k.request, m.Error)
			continue
		}
		require.NotNil(t, m.Error, k.request)
		text := func(key string) string { s, _ := m.Error[key].(string); return s }
		assert.Equal(t, []string{k.kind, k.field, k.name}, []string{text("kind"), text("field"), text("name")}, "%s: %v", k.request, m.Error)
	}
}

func TestSessionIsUnderTheCeiling(t *testing.T) {
	dir := t.TempDir()
	ceiling := filepath.Join(dir, "ceiling.json")
	require.NoError(t, os.WriteFile(ceiling, []byte(`{"fs_write":[`+strconv.Quote(dir)+`],"network":"none"}`), 0o644))
	t.Setenv("NSRUN_CEILING", ceiling)
	c := connect(t)
	opened := c.ask(`{"op":"open","policy":{"network":"host"}}`)
	require.NotNil(t, opened.OK, "%v", opened.Error)
	assert.Equal(t, "none", opened.OK["receipt"].(map[string]any)["network"])
	m := c.ask(`{"op":"open","session":"b","policy":{"workspace":` + strconv.Quote(dir) + `}}`)
	assert.Contains(t, m.Error["text"], "ceiling", "no sandbox may write the ceiling")
}

func TestSessionHasProcesses(t *testing.T) {
	c := connect(t)
	c.ask(`{"op":"open","policy":{}}`)
	c.send(`{"id":"p","op":"start","args":["sh","-c","trap 'echo got it' USR1; echo ready; while read l; do echo \"<$l>\"; done"]}`)
	require.Equal(t, true, c.next().OK["started"])
	require.Equal(t, "ready\n", c.next().Stdout)
	c.send(`{"id":1,"op":"write","of":"p","data":"hello\n"}`)
	written, closed := "", 0
	until := func(stop func() bool) {
		for !stop() {
			if m := c.next(); m.ID == "p" {
				text, _ := m.Stdout.(string)
				written += text
				if m.Closed != "" {
					closed++
				}
			}
		}
	}
	until(func() bool { return strings.Contains(written, "<hello>") })
	c.send(`{"id":2,"op":"signal","of":"p","signal":"USR1"}`)
	c.send(`{"id":3,"op":"write","of":"p","data":"x\n"}`)
	until(func() bool { return strings.Contains(written, "got it") })
	c.send(`{"id":4,"op":"cancel","of":"p"}`)
	until(func() bool { return closed == 2 })
	require.NoError(t, c.in.Close())
	assert.Zero(t, c.end())
}

func TestSessionEnds(t *testing.T) {
	for _, k := range []struct {
		name string
		by   func(*client)
		code int
	}{
		{"with its input", func(c *client) { _ = c.in.Close() }, 0},
		{"by SIGTERM", func(c *client) { _ = c.cmd.Process.Signal(unix.SIGTERM) }, 128 + int(unix.SIGTERM)},
		{"by SIGINT", func(c *client) { _ = c.cmd.Process.Signal(unix.SIGINT) }, 128 + int(unix.SIGINT)},
		{"by SIGQUIT", func(c *client) { _ = c.cmd.Process.Signal(unix.SIGQUIT) }, 128 + int(unix.SIGQUIT)},
		{"with its output, unasked", func(c *client) { _ = c.raw.Close() }, 125},
		{"with its output", func(c *client) {
			_ = c.raw.Close()
			_, _ = io.WriteString(c.in, `{"id":9,"op":"ping"}`+"\n") // which may have ended already
		}, 125},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := connect(t)
			mark := sleepMark(t)
			c.ask(`{"op":"open","policy":{}}`)
			c.send(`{"id":7,"op":"exec","timeout":"9s","shell":"setsid sleep %s & trap '' TERM; sleep %s"}`, mark, mark)
			c.send(`{"id":8,"op":"start","args":["sleep","%s"]}`, mark)
			c.next()
			waitFor(t, func() bool { return len(processesWith(mark)) >= 3 })
			k.by(c)
			assert.Equal(t, k.code, c.end())
			assert.Empty(t, processesWith(mark), "nothing is alive when it has ended")
		})
	}
}

// TestSessionLeavesNoZombie to init, whose part this process plays.
func TestSessionLeavesNoZombie(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	for _, k := range []struct {
		name string
		by   func(*client)
		left bool // a zombie: the sandbox's pid 1, which has nsrun's name
	}{
		{"with its input", func(c *client) { _ = c.in.Close() }, false},
		{"by SIGTERM", func(c *client) { _ = c.cmd.Process.Signal(unix.SIGTERM) }, false},
		{"with its output", func(c *client) { _ = c.raw.Close() }, false},
		{"killed, the positive control", func(c *client) { _ = c.cmd.Process.Kill() }, true},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := connect(t)
			require.NotNil(t, c.ask(`{"op":"open","policy":{}}`).OK)
			require.NotNil(t, c.ask(`{"op":"exec","args":["true"]}`).OK)
			k.by(c)
			c.end()
			testenv.Eventually(t, func() bool { return len(orphans()) > 0 == k.left }, "the end of the sandbox's pid 1")
			for err := error(nil); err == nil; {
				_, err = unix.Wait4(-1, nil, 0, nil)
			}
		})
	}
}

// orphans lists processes of nsrun that are children of this process, zombies too: those whose own parent has ended.
func orphans() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range all {
		status, _ := os.ReadFile(name)
		if strings.HasPrefix(string(status), "Name:\tnsrun") && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// sleepMark is an argument for sleep that no other process has.
func sleepMark(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("9%d.%d", os.Getpid(), time.Now().UnixNano()%1e9)
}

// processesWith lists the processes of the host that have an argument.
func processesWith(arg string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), "\x00"+arg+"\x00") {
			found = append(found, name)
		}
	}
	return found
}

func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	testenv.Eventually(t, what, "processes to come or to go")
}

// A client that is killed leaves nothing. If someone still holds the other end of its output, its commands run to their timeouts first.
func TestSessionEndsWithItsClient(t *testing.T) {
	needSandbox(t)
	dir, mark := t.TempDir(), sleepMark(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "in"), 0o600))
	// The last command takes the shell's place, and holds the input open.
	cmd := exec.Command("sh", "-c", `nsrun session <in >out & exec 3>in
echo '{"id":1,"op":"open","policy":{}}' >&3
echo '{"id":2,"op":"exec","timeout":"2s","shell":"setsid sleep '$0' & trap \"\" TERM; sleep '$0'"}' >&3
echo '{"id":3,"op":"start","args":["sleep","'$0'"]}' >&3
exec sleep 1000`, mark)
	cmd.Dir = dir
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	waitFor(t, func() bool { return len(processesWith(mark)) >= 3 })
	require.NoError(t, cmd.Process.Kill())
	waitFor(t, func() bool { return len(processesWith(mark)) == 0 })
	nothingLeft(t)
}

// mostUnread is more MiB than twelve commands may cost whose output nobody reads: four collect it, and eight have full pipes.
const mostUnread = 20 * overhead

func TestSessionOfAClientThatDoesNotReadStaysSmall(t *testing.T) {
	c := connect(t)
	mark := sleepMark(t)
	begin := residentMiB(t, c.cmd.Process.Pid)
	c.ask(`{"op":"open","session":"a","policy":{}}`)
	c.ask(`{"op":"open","session":"b","policy":{}}`)
	for i := range 4 { // none of it is read
		c.send(`{"id":"stream %d","op":"exec","session":"a","args":["cat","/dev/zero"],"stream":true}`, i)
		c.send(`{"id":"start %d","op":"start","session":"a","args":["cat","/dev/zero"]}`, i)
		c.send(`{"id":"exec %d","op":"exec","session":"a","args":["cat","/dev/zero"]}`, i)
	}
	c.send(`{"id":"b","op":"exec","session":"b","args":["sleep","%s"]}`, mark)
	waitFor(t, func() bool { return len(processesWith(mark)) == 1 })
	for before := -mostUnread; ; { // until all that is held is there, which takes its time on a busy machine
		time.Sleep(testenv.Scale(500 * time.Millisecond))
		after := residentMiB(t, c.cmd.Process.Pid)
		t.Logf("%d MiB, at the beginning %d MiB", after, begin)
		require.Less(t, after, begin+mostUnread, "memory does not grow")
		if after < before+10 {
			break
		}
		before = after
	}
	c.send(`{"id":"close","op":"close","session":"b","now":true}`)
	waitFor(t, func() bool { return len(processesWith(mark)) == 0 }) // closing goes on all the same
	require.NoError(t, c.in.Close())
	assert.Equal(t, result.CodeFailed, c.end(), "its going is noticed, though nobody reads, and that answers are lost")
}

// Answers that nobody reads cost what was collected, and what Go has for garbage, but not their JSON, which here is six times as long.
func TestSessionHoldsWhatWasCollectedAsItIs(t *testing.T) {
	const commands = 24
	const collected = 2 * commands // MiB
	c, work := connect(t), t.TempDir()
	c.ask(`{"op":"open","policy":{"workspace":` + strconv.Quote(work) + `}}`)
	before := memoryMiB(t, c.cmd.Process.Pid, "VmRSS")
	for i := range commands {
		c.send(`{"id":"%d","op":"exec","shell":"head -c 2000000 /dev/zero; head -c 2000000 /dev/zero >&2; mkdir %d"}`, i, i)
	}
	testenv.Eventually(t, func() bool {
		ended, err := os.ReadDir(work)
		return err == nil && len(ended) == commands
	}, "all commands to end")
	time.Sleep(testenv.Scale(500 * time.Millisecond)) // for what is made of it
	peak := memoryMiB(t, c.cmd.Process.Pid, "VmHWM")
	t.Logf("%d MiB, with %d MiB of output at most %d MiB", before, collected, peak)
	assert.Greater(t, peak, before+collected*3/4, "it is held")
	assert.Less(t, peak, before+overhead*collected, "as JSON it would be eighteen times as much")
	ok := c.next().OK // one of them: an emulated machine takes its time to read such lines
	assert.Equal(t, "ok", ok["verdict"])
	assert.Len(t, ok["stdout"], runner.DefaultMaxOutput)
	assert.Len(t, ok["stderr"], runner.DefaultMaxOutput)
	require.NoError(t, c.raw.Close())
	assert.Equal(t, result.CodeFailed, c.end())
}

func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	return memoryMiB(t, pid, "VmRSS")
}

// memoryMiB is a number of a process's status.
func memoryMiB(t *testing.T, pid int, name string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, m)
	kib, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return kib / 1024
}
