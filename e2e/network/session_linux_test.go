package network

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// conversation is an nsrun session that is spoken with.
type conversation struct {
	running
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

// reply is an answer, or an event.
type reply struct {
	ID *int
	OK struct {
		result.Result
		Stdout, Stderr string
		Rules          []string
	}
	Error    *struct{ Kind, Field, Text, Fix string }
	Refused  *result.Denial
	Question *struct {
		ID            int
		Name, Address string
		Port          int
		Rule          string
	}
}

func (w *world) converse(t *testing.T, nsrun string, environ ...string) *conversation {
	t.Helper()
	c := &conversation{running: running{cmd: w.command(nsrun, "session")}}
	c.cmd.Env = append(c.cmd.Env, environ...)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// send sends a request, and returns its id.
func (c *conversation) send(t *testing.T, request string) int {
	t.Helper()
	c.id++
	_, err := fmt.Fprintf(c.in, "{\"id\":%d,%s}\n", c.id, request)
	require.NoError(t, err)
	return c.id
}

// next returns the next line for which want is true.
func (c *conversation) next(t *testing.T, want func(reply) bool) (r reply) {
	t.Helper()
	for {
		var err error
		testenv.Returns(t, "a line", func() {
			line, failed := c.out.ReadString('\n')
			r, err = reply{}, failed
			if err == nil {
				err = json.Unmarshal([]byte(line), &r)
			}
		})
		require.NoError(t, err)
		if want(r) {
			return r
		}
	}
}

func (c *conversation) answerTo(t *testing.T, id int) reply {
	t.Helper()
	return c.next(t, func(r reply) bool { return r.ID != nil && *r.ID == id })
}

// asks sends a request, and returns its answer. Events before that are left out.
func (c *conversation) asks(t *testing.T, request string) reply {
	t.Helper()
	return c.answerTo(t, c.send(t, request))
}

// executing is a request to run a script.
func executing(script string) string {
	text, _ := json.Marshal(script)
	return `"op":"exec","receipt":true,"shell":` + string(text)
}

// open opens a session with rules.
func (c *conversation) open(t *testing.T, w *world, rules ...string) {
	t.Helper()
	r := c.asks(t, opening(w, rules...))
	require.Nil(t, r.Error, "%+v", r.Error)
}

func opening(w *world, rules ...string) string {
	list, _ := json.Marshal(append([]string{}, rules...))
	return fmt.Sprintf(`"op":"open","policy":{"workspace":%q,"network":{"allow":%s}}`, w.work, list)
}

// shell runs a script.
func (c *conversation) shell(t *testing.T, script string, options ...string) reply {
	t.Helper()
	return c.asks(t, strings.Join(append([]string{executing(script)}, options...), ","))
}

// TestASession has one helper for all its commands, and each result has what was reached and refused while its command ran.
func TestASession(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		c := w.converse(t, built.nsrun)
		c.open(t, w, "listed.test:7000", "other.test:7000")
		helpers := named(descendants(c.cmd.Process.Pid), "nsrun-helper")
		require.Len(t, helpers, 1)
		for _, host := range []string{"listed.test", "other.test", "listed.test"} {
			got := c.shell(t, tcpTo(host, "7000")).OK
			assert.Equal(t, result.OK, got.Verdict, "%+v", got)
			assert.Contains(t, got.Stdout, "over")
			assert.Empty(t, got.Denials)
			require.NotNil(t, got.Receipt.Allow)
			require.Len(t, got.Receipt.Allow.Reached, 1, "%+v", got.Receipt.Allow)
			assert.Equal(t, host, got.Receipt.Allow.Reached[0].Name)
			assert.Equal(t, 1, got.Receipt.Allow.Reached[0].Connections)
			assert.EqualValues(t, len("over\n"), got.Receipt.Allow.Reached[0].Sent)
		}
		for _, host := range []string{"unlisted.test", "wild.test", "unlisted.test"} { // the third refusal is one of a kind that is known
			got := c.shell(t, tcpTo(host, "7000")).OK
			assert.NotEqual(t, result.OK, got.Verdict)
			require.Len(t, got.Denials, 1, "%+v", got.Denials)
			assert.True(t, strings.HasPrefix(got.Denials[0].Path, host), "%+v", got.Denials)
			assert.Empty(t, got.Receipt.Allow.Reached)
		}
		got := c.shell(t, tcpTo("listed.test", "7000"), `"fresh":true`).OK
		assert.Contains(t, got.Stdout, "over")
		assert.Len(t, got.Receipt.Allow.Reached, 1)
		again := named(descendants(c.cmd.Process.Pid), "nsrun-helper")
		assert.Len(t, again, 1)
		assert.NotEqual(t, helpers, again, "a new sandbox has a helper of its own")
		require.Nil(t, c.asks(t, `"op":"close"`).Error)
		assert.Empty(t, descendants(c.cmd.Process.Pid), "when the session is closed")
	})
}

// TestWhatIsSentLastInASession arrives, though the session is closed as soon as its command has ended, or has ended with its caller.
func TestWhatIsSentLastInASession(t *testing.T) {
	const times = 3
	eachUser(t, func(t *testing.T, w *world) {
		for i := range times {
			for _, end := range []string{"closed", "left"} {
				path := fmt.Sprintf("/last-of-%s-session-%s-%d", w.name, end, i)
				c := w.converse(t, built.nsrun)
				c.open(t, w, "far.test")
				got := c.shell(t, fmt.Sprintf(`bash -c 'printf "GET %s HTTP/1.1\r\nHost: far.test\r\n\r\n" >/dev/tcp/far.test/80'`, path)).OK
				assert.Equal(t, result.OK, got.Verdict, "%+v", got)
				if end == "closed" {
					require.Nil(t, c.asks(t, `"op":"close"`).Error)
				}
				require.NoError(t, c.in.Close())
				testenv.Eventually(t, func() bool { return hitsOf("far.test "+path) == 1 }, "the request of a session that is "+end)
			}
		}
	})
}

// TestTheHelperOfASessionThatIsKilled leaves no way out; later results say so, and a fresh sandbox has another one.
func TestTheHelperOfASessionThatIsKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
			c := w.converse(t, built.nsrun)
			c.open(t, w, "listed.test:7000")
			assert.Contains(t, c.shell(t, tcpTo("listed.test", "7000")).OK.Stdout, "over")
			require.NoError(t, unix.Kill(named(descendants(c.cmd.Process.Pid), "nsrun-helper")[0], signal))
			forget()
			got := c.shell(t, tcpTo("listed.test", "7000")).OK
			asked, packets := left()
			assert.Empty(t, asked)
			assert.Empty(t, packets)
			assert.NotContains(t, got.Stdout, "over")
			assert.Contains(t, fmt.Sprint(got.Receipt.Notes), "network helper: it ended before the command did", "%v", signal)
			assert.Contains(t, c.shell(t, tcpTo("listed.test", "7000"), `"fresh":true`).OK.Stdout, "over", "%v", signal)
			require.Nil(t, c.asks(t, `"op":"close"`).Error)
			assert.Empty(t, descendants(c.cmd.Process.Pid), "when the session is closed")
		}
	})
}

// TestASessionWithoutAHelper is not opened, and the error says what to do. Nothing is left of what was begun.
func TestASessionWithoutAHelper(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for name, want := range map[string]string{"": "install nsrun-helper beside nsrun", "#!/bin/sh\nexit 1\n": "it ended before it was ready"} {
			dir, err := os.MkdirTemp(built.room, "alone-")
			require.NoError(t, err)
			require.NoError(t, os.Chmod(dir, 0o755))
			require.NoError(t, os.Link(built.nsrun, dir+"/nsrun"))
			if name != "" {
				require.NoError(t, os.WriteFile(dir+"/nsrun-helper", []byte(name), 0o755))
			}
			c := w.converse(t, dir+"/nsrun")
			r := c.asks(t, opening(w, "listed.test:7000"))
			require.NotNil(t, r.Error)
			assert.Equal(t, "setup", r.Error.Kind)
			assert.Contains(t, r.Error.Text+r.Error.Fix, want)
			assert.Empty(t, descendants(c.cmd.Process.Pid))
		}
	})
}

// TestNothingIsLeftOfASessionThatIsKilled: as of a run. A helper that does not listen to nsrun any more ends, too.
func TestNothingIsLeftOfASessionThatIsKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for _, stop := range []bool{false, true} {
			c := w.converse(t, built.nsrun)
			c.open(t, w, "listed.test:7000")
			c.send(t, executing(fmt.Sprintf(holding, "")))
			children := c.connected(t, w)
			if stop {
				require.NoError(t, unix.Kill(named(descendants(c.cmd.Process.Pid), "nsrun-helper")[0], unix.SIGSTOP))
			}
			require.NoError(t, c.cmd.Process.Kill())
			_ = c.cmd.Wait()
			gone(t, children)
			require.NoError(t, os.Remove(w.work+"/connected"))
		}
	})
}

// TestTheLibrary opens sessions and pools, and runs single commands, whose results each have what was refused to them.
func TestTheLibrary(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for _, mode := range []string{"run", "session", "pool"} {
			cmd := w.command(built.room+"/library", mode, w.work, "listed.test:7000", "sh", "-c", tcpTo("listed.test", "7000")+"; "+tcpTo("unlisted.test", "7000"))
			out, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", out)
			assert.Equal(t, 2, strings.Count(string(out), "over\n"), "%s: %s", mode, out)
			assert.Equal(t, 2, strings.Count(string(out), "refused: unlisted.test, 2\n"), "A and AAAA, %s: %s", mode, out)
		}
	})
}

// TestASessionThatAsks has a client decide about what no rule allows, while the connection waits; nothing leaves the host before.
func TestASessionThatAsks(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		c := w.converse(t, built.nsrun)
		r := c.asks(t, opening(w, "listed.test:7000")+`,"ask":"30s","refusals":true`)
		require.Nil(t, r.Error, "%+v", r.Error)
		ask := func(script, answer string) (q, got reply) {
			forget()
			id := c.send(t, executing(script))
			q = c.next(t, func(r reply) bool { return r.Question != nil })
			asked, packets := left()
			assert.Empty(t, asked, "before the answer")
			assert.Empty(t, packets, "before the answer")
			require.Nil(t, c.asks(t, fmt.Sprintf(`"op":"answer","question":%d,%s`, q.Question.ID, answer)).Error)
			return q, c.answerTo(t, id)
		}
		q, got := ask(tcpTo("other.test", "7000"), `"allow":"once"`)
		assert.Equal(t, "other.test:7000", q.Question.Rule)
		assert.Contains(t, got.OK.Stdout, "over")
		_, got = ask(tcpTo("other.test", "7000"), `"allow":"deny","reason":"the user said so"`)
		assert.NotContains(t, got.OK.Stdout, "over")
		require.Len(t, got.OK.Denials, 1)
		assert.Contains(t, got.OK.Denials[0].Reason, "the user said so")
		_, got = ask(tcpTo("other.test", "7000"), `"allow":"session"`)
		assert.Contains(t, got.OK.Stdout, "over")
		assert.Equal(t, []string{"listed.test:7000", "other.test:7000"}, got.OK.Receipt.Allow.Rules)
		got = c.shell(t, tcpTo("other.test", "7000"))
		assert.Contains(t, got.OK.Stdout, "over", "no question")
		got = c.shell(t, tcpTo("other.test", "7000"), `"fresh":true`)
		assert.Contains(t, got.OK.Stdout, "over", "nor in a new sandbox")
		// A question for an address, and the forms of refusals that are none: of the host itself, of metadata.
		_, got = ask(tcpTo("203.0.113.10", "7000"), `"allow":"once"`)
		assert.Contains(t, got.OK.Stdout, "over")
		for _, address := range []string{"192.0.2.1", "169.254.169.254", "10.1.2.3"} {
			assert.NotContains(t, c.shell(t, tcpTo(address, "7000")).OK.Stdout, "over", address)
		}
		_, got = ask(tcpTo("own.test", "7000"), `"allow":"once"`)
		assert.NotContains(t, got.OK.Stdout, "over", "an answer allows a name, and not what the name leads to")
		require.Len(t, got.OK.Denials, 1)
		assert.Contains(t, got.OK.Denials[0].Reason, "one of the host's own addresses")
		_, got = ask(`curl -sS -H 'Host: listed.test' http://wild.test/hello`, `"allow":"once"`)
		assert.NotContains(t, got.OK.Stdout, "hello", "what is inside has to be for it, too")
		e := c.asks(t, `"op":"answer","question":999,"allow":"once"`).Error
		require.NotNil(t, e)
		assert.Equal(t, "closed", e.Kind)
	})
}

// TestAQuestionThatNobodyAnswers is a refusal, in time.
func TestAQuestionThatNobodyAnswers(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		c := w.converse(t, built.nsrun)
		require.Nil(t, c.asks(t, opening(w)+`,"ask":0.3,"refusals":true`).Error)
		id := c.send(t, executing(tcpTo("other.test", "7000")))
		refused := c.next(t, func(r reply) bool { return r.Refused != nil })
		assert.Equal(t, "other.test:7000", refused.Refused.Path)
		assert.Contains(t, refused.Refused.Reason, "nobody has answered within 300ms")
		got := c.answerTo(t, id)
		assert.NotContains(t, got.OK.Stdout, "over")
	})
}

// TestRulesThatChange count at once: connections that they do not allow are reset, and others go on.
func TestRulesThatChange(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		c := w.converse(t, built.nsrun)
		c.open(t, w, "listed.test:7000", "udp://listed.test:9999")
		held := fmt.Sprintf(holding, `
try: s.sendall(b'more\\n'); print('KEPT' if s.recv(100) else 'ENDED')
except OSError as e: print('ENDED', e)`)
		rules := func(rules string) reply { return c.asks(t, `"op":"allow","rules":[`+rules+`]`) }
		for _, row := range []struct{ rules, want string }{{`"listed.test:7000","other.test:7000"`, "KEPT"}, {`"other.test:7000"`, "ENDED"}} {
			require.Nil(t, rules(`"listed.test:7000"`).Error)
			id := c.send(t, executing(held))
			c.connected(t, w)
			r := rules(row.rules)
			require.Nil(t, r.Error)
			assert.Equal(t, row.rules, `"`+strings.Join(r.OK.Rules, `","`)+`"`)
			w.release(t)
			assert.Contains(t, c.answerTo(t, id).OK.Stdout, row.want)
			require.NoError(t, os.Remove(w.work+"/go"))
			require.NoError(t, os.Remove(w.work+"/connected"))
		}
		got := c.shell(t, tcpTo("listed.test", "7000")+"; "+tcpTo("other.test", "7000"), `"fresh":true`).OK
		assert.Equal(t, 1, strings.Count(got.Stdout, "over"), "%+v", got)
		assert.Equal(t, []string{"other.test:7000"}, got.Receipt.Allow.Rules)
		for bad, want := range map[string]string{`"*"`: "rules[0]", `"listed.test","udp://listed.test:123"`: "open the session with the rule", `"listed.test:0"`: "rules[0]"} {
			e := rules(bad).Error
			require.NotNil(t, e, bad)
			assert.Equal(t, "refused", e.Kind)
			assert.Contains(t, e.Field+e.Text+e.Fix, want)
		}
		assert.Contains(t, c.shell(t, tcpTo("other.test", "7000")).OK.Stdout, "over", "as before")
	})
}

// TestTheLibraryAsks: of Session.Ask, SetAllow and OnRefused.
func TestTheLibraryAsks(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		out, err := w.command(built.room+"/library", "ask", w.work, "listed.test:7000", "sh", "-c", tcpTo("other.test", "7000")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, 1, strings.Count(string(out), "over\n"), "%s", out)
		assert.Equal(t, 2, strings.Count(string(out), "asked: other.test 7000\n"), "%s", out)
		assert.Contains(t, string(out), "rules: [listed.test:7000 other.test:7000]")
		assert.Contains(t, string(out), "refused: other.test:7000, 1\n")
		assert.Contains(t, string(out), "heard: other.test:7000\n")
	})
}

// TestAProgramThatIsItsOwnHelper takes no nsrun-helper beside it.
func TestAProgramThatIsItsOwnHelper(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		require.NoFileExists(t, built.room+"/alone/nsrun-helper")
		var out bytes.Buffer
		r := running{cmd: w.command(built.room+"/alone/alone", w.work, "listed.test:7000", "sh", "-c", tcpTo("unlisted.test", "7000")+"; "+fmt.Sprintf(holding, "")), out: &out}
		r.cmd.Stdout, r.cmd.Stderr = &out, &out
		require.NoError(t, r.cmd.Start())
		children := r.connected(t, w)
		w.release(t)
		testenv.Returns(t, "the program", func() { assert.NoError(t, r.cmd.Wait()) })
		assert.Contains(t, out.String(), "Name or service not known")
		assert.NotContains(t, out.String(), "alone:")
		gone(t, children)
	})
}

// TestTheClientsAsk: those for Python and Node in examples.
func TestTheClientsAsk(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	require.NoError(t, err)
	for _, dir := range []string{"python", "node"} { // of which every user can read a copy
		require.NoError(t, os.CopyFS(filepath.Join(shared(), "examples", dir), os.DirFS(filepath.Join(examples, dir))))
	}
	script := tcpTo("other.test", "7000")
	eachUser(t, func(t *testing.T, w *world) {
		for name, argv := range map[string][]string{
			"python": {"/usr/bin/python3", "-c", `
import sys
sys.path.insert(0, sys.argv[1] + "/python")
from nsrun_session import Session
answers = [("deny", "not yet"), "once", "session"]
def decide(q):
    print("asked", q.name, q.port, q.address)
    return answers.pop(0)
with Session(policy={"workspace": sys.argv[2], "network": {"allow": []}}, ask=decide) as s:
    for i in range(4):
        r = s.exec(shell=sys.argv[3])
        print(r.stdout.strip(), getattr(r, "denials", [{}])[0].get("reason", ""))
    print("rules", s.allow("listed.test"))
    answers.append(None)
    print(s.exec(shell=sys.argv[3]).denials[0]["reason"])
`},
			"node": {"node", "--input-type=module", "-e", `
const [examples, workspace, shell] = process.argv.slice(1);
const { Session } = await import(examples + "/node/nsrun-session.mjs");
const answers = [["deny", "not yet"], "once", "session"];
const decide = (q) => { console.log("asked", q.name, q.port, q.address ?? "None"); if (answers.length === 0) throw new TypeError("no answer"); return answers.shift(); };
const s = await Session.open({ policy: { workspace, network: { allow: [] } }, decide });
for (let i = 0; i < 4; i++) {
  const r = await s.exec(undefined, { shell });
  console.log(r.stdout.trim(), r.denials?.[0].reason ?? "");
}
console.log("rules", JSON.stringify(await s.allow(["listed.test"])).replaceAll('"', "'"));
console.log((await s.exec(undefined, { shell })).denials[0].reason);
await s.close();
`},
		} {
			cmd := w.command(append(argv, shared()+"/examples", w.work, script)...)
			cmd.Env = append(cmd.Env, "NSRUN="+built.nsrun)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
			lines := strings.Split(string(out), "\n")
			require.GreaterOrEqual(t, len(lines), 10, "%s", out)
			const asked = "asked other.test 7000 None"
			assert.Equal(t, []string{asked, " no rule names other.test, and not yet", asked, "over ", asked, "over ", "over ", "rules ['listed.test']", asked}, lines[:9], name)
			assert.Contains(t, lines[9], "TypeError", name)
		}
	})
}
