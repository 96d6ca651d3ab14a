package network

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asking writes a program that answers, and returns the flags that have it asked. It keeps what it was asked in the file "asked" beside it.
func (w *world) asking(t *testing.T, script string) []string {
	t.Helper()
	name := filepath.Join(w.from, "answer")
	_ = os.Remove(w.from + "/asked")
	require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\ncat >>"+w.from+"/asked\n"+script), 0o755))
	return []string{"--ask", name}
}

func (w *world) asked() string {
	data, _ := os.ReadFile(w.from + "/asked")
	return string(data)
}

func TestARunThatAsks(t *testing.T) {
	const question = `{"name":"other.test","port":7000,"rule":"other.test:7000"}` + "\n"
	twice := tcpTo("other.test", "7000") + "; " + tcpTo("other.test", "7000")
	for name, row := range map[string]struct {
		script, reason string
		reached, asked int
	}{
		"once":            {"echo once", "", 2, 2},
		"session":         {"echo session", "", 2, 1},
		"deny":            {"echo deny the user said so", "and the user said so", 0, 2},
		"a word alone":    {"echo deny", "it was not allowed when nsrun asked", 0, 2},
		"nonsense":        {"echo yes", `its answer "yes" is none of once, session and deny`, 0, 2},
		"two lines":       {"echo once; echo session", "more than one line", 0, 2},
		"nothing":         {"true", `its answer "" is none of`, 0, 2},
		"a failure":       {"echo once; exit 3", "exit status 3", 0, 2},
		"too much":        {"head -c 100000 /dev/zero", "", 0, 2},
		"no answer":       {"exec sleep 100", "within 1s", 0, 2},
		"a child is left": {"echo once; sleep 3 &", "", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			eachUser(t, func(t *testing.T, w *world) {
				got := w.run(t, append(append(allow("listed.test:7000"), "--ask-timeout", "1s"), w.asking(t, row.script)...), twice)
				assert.Equal(t, row.reached, strings.Count(got.out, "over"), got.out)
				assert.Equal(t, strings.Repeat(question, row.asked), w.asked())
				if row.reached == 0 {
					require.Len(t, got.Denials, 1)
					assert.Contains(t, got.Denials[0].Reason, row.reason)
					assert.Equal(t, 2, got.Denials[0].Count)
				}
			})
		})
	}
}

// TestARunThatEndsWhileItAsks does not wait for the answer, and leaves nothing of what was asked.
func TestARunThatEndsWhileItAsks(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		flags := append(append(allow("listed.test:7000"), "--ask-timeout", "1m"), w.asking(t, "exec sleep 100")...)
		began := time.Now()
		r := w.start(t, []string{built.nsrun}, append(flags, "--timeout", "2s", "--kill-grace", "100ms"), tcpTo("other.test", "7000"))
		got := r.wait(t)
		assert.Equal(t, result.Timeout, got.Verdict, got.out)
		assert.Less(t, time.Since(began), 50*time.Second)
		assert.Empty(t, named(descendants(os.Getpid()), "sleep"))
	})
}

func TestAskingUnderACeiling(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		ceiling := filepath.Join(w.from, "ceiling.json")
		require.NoError(t, os.WriteFile(ceiling, []byte(`{"fs_read": ["/"], "fs_write": ["/"], "network": {"allow": ["other.test:7000"]}}`), 0o644))
		flags := append(append(allow("listed.test:7000"), "--ceiling", ceiling), w.asking(t, "echo session")...)
		got := w.run(t, flags, tcpTo("other.test", "7000")+"; "+tcpTo("wild.test", "7000"))
		assert.Equal(t, 1, strings.Count(got.out, "over"), got.out)
		assert.Equal(t, 1, strings.Count(w.asked(), "\n"), w.asked())
		c := w.converse(t, built.nsrun, "NSRUN_CEILING="+ceiling)
		require.Nil(t, c.asks(t, opening(w)+`,"ask":"20s"`).Error)
		e := c.asks(t, `"op":"allow","rules":["wild.test:7000"]`).Error
		require.NotNil(t, e)
		assert.Contains(t, e.Text, "beyond the operator's ceiling")
		require.Nil(t, c.asks(t, `"op":"allow","rules":["other.test:7000"]`).Error)
		assert.Contains(t, c.shell(t, tcpTo("other.test", "7000")).OK.Stdout, "over")
	})
}

// TestAProgramThatTheSandboxCouldWrite is not asked: it runs outside. A symlink that the sandbox can change does not lead to another one.
func TestAProgramThatTheSandboxCouldWrite(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		program := w.asking(t, "echo once")[1]
		require.NoError(t, os.Rename(program, w.work+"/answer"))
		got := w.run(t, append(allow("listed.test:7000"), "--ask", "./answer"), "touch ran")
		assert.Contains(t, got.out, "it would make "+w.work+"/answer writable")
		assert.NoFileExists(t, w.work+"/ran")
		require.NoError(t, os.Rename(w.work+"/answer", program))
		require.NoError(t, os.Symlink(program, w.work+"/answer"))
		script := "ln -sf " + w.work + "/evil answer; printf '#!/bin/sh\\ntouch " + w.from + "/escaped; echo once' >evil; chmod +x evil; " + tcpTo("other.test", "7000")
		got = w.run(t, append(allow("listed.test:7000"), "--ask", "./answer"), script)
		assert.Equal(t, 1, strings.Count(got.out, "over"), got.out)
		assert.NoFileExists(t, w.from+"/escaped")
	})
}

func TestAskingThatCannotBe(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for want, flags := range map[string][]string{
			"--ask is about what the rules of --net allow do not name":  {"--ask", "true"},
			"--ask-timeout is about --ask, which is not given":          {"--net", "allow:listed.test", "--ask-timeout", "1s"},
			"--ask no-such-program: executable file not found in $PATH": {"--net", "allow:listed.test", "--ask", "no-such-program"},
			"--ask /etc/passwd: permission denied":                      {"--net", "allow:listed.test", "--ask", "/etc/passwd"},
		} {
			out, err := w.command(append(append([]string{built.nsrun, "run"}, flags...), "--", "touch", "ran")...).CombinedOutput()
			assert.Error(t, err)
			assert.Contains(t, string(out), want)
			assert.NoFileExists(t, fmt.Sprint(w.work, "/ran"))
		}
	})
}
