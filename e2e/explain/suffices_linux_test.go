package explain

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failing is a program that people use, doing something that the default policy refuses.
type failing struct {
	name   string
	files  map[string]string // of the user's, by their places
	script string            // of a shell
	prints string            // where it is allowed
}

var failingPrograms = []failing{
	{"a file beside the project", map[string]string{"{hidden}/notes": "remember\n"}, `cat "{hidden}/notes"`, "remember"},
	{"git, with the user's name", map[string]string{"{home}/.gitconfig": "[user]\n\tname = Ann\n\temail = ann@example.com\n"},
		"git init -q r; cd r; git commit -q --allow-empty -m one; git log --format=%an", "Ann"},
	{"strace", nil, "strace -o trace true && grep -c execve trace", "1"},
	{"make, with its output elsewhere", map[string]string{"{work}/Makefile": "all:\n\tgcc -c -o {shared}/p.o p.c && echo built\n", "{work}/p.c": "int main(void) { return 0; }\n"}, "make -s", "built"},
	{"a script of one's own", map[string]string{"{hidden}/tool": "#!/bin/sh\necho the tool ran\n"}, `"{hidden}/tool"`, "the tool ran"},
	{"a module of Python's", map[string]string{"{hidden}/helper.py": "print('imported')\n"}, `PYTHONPATH="{hidden}" python3 -c 'import helper'`, "imported"},
	{"a module of node's", map[string]string{"{hidden}/m.js": "console.log('required')\n"}, `node -e 'require(process.argv[1])' "{hidden}/m.js"`, "required"},
	{"tar", map[string]string{"{hidden}/notes": "remember\n"}, `tar cf a.tar -C "{hidden}" notes && tar tf a.tar`, "notes"},
	{"a database", nil, "sqlite3 {shared}/d 'create table t(a); insert into t values(42); select a from t'", "42"},
	{"a log that grows", map[string]string{"{shared}/log": "one\n"}, "echo two >>{shared}/log && wc -l <{shared}/log", "2"},
	{"a server on this host", nil, "curl -sS http://127.0.0.1:{port}/", "served"},
	{"a server behind a socket", nil, `curl -sS --unix-socket "{hidden}/socket" http://localhost/`, "served"},
}

// TestTheReportSuffices makes failing programs work by what --explain says, and nothing else: the first change that was not made yet, again and again.
func TestTheReportSuffices(t *testing.T) {
	for _, name := range []string{"curl", "gcc", "git", "make", "node", "python3", "sqlite3", "strace", "tar"} {
		_, err := exec.LookPath(name)
		need(t, err == nil, name)
	}
	for _, w := range worlds(t) {
		for _, p := range failingPrograms {
			t.Run(w.name+"/"+p.name, func(t *testing.T) {
				w.fresh(t)
				port := w.serve(t)
				place := strings.NewReplacer("{hidden}", w.hidden, "{home}", w.home, "{shared}", w.shared, "{work}", w.work, "{port}", fmt.Sprint(port)).Replace
				for name, text := range p.files {
					w.write(t, place(name), place(text), 0o755)
				}
				p.suffices(t, w, place(p.script))
			})
		}
	}
}

func (p failing) suffices(t *testing.T, w *world, script string) {
	const most = 5
	flags, made := "--explain=all", map[string]bool{}
	for range most {
		r := w.explained(t, flags, "sh", "-ec", script)
		if r.Code == 0 {
			require.NotEmpty(t, made, "it works without a change")
			assert.Contains(t, r.out, p.prints)
			t.Log(strings.TrimPrefix(flags, "--explain=all "))
			return
		}
		change := ""
		for _, d := range r.Denials {
			if d.Change != nil && !made[d.Change.Flag] {
				change = d.Change.Flag
				break
			}
		}
		require.NotEmpty(t, change, "no change is left: %+v\n%s", r.Denials, r.out)
		made[change], flags = true, flags+" "+change
	}
	t.Errorf("it does not work with %s", flags)
}

// serve is a web server on this host's loopback and behind a socket of the hidden directory.
func (w *world) serve(t *testing.T) (port int) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	local, err := net.Listen("unix", w.hidden+"/socket")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(w.hidden+"/socket", 0o777))
	answer := http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "served") })
	for _, l := range []net.Listener{tcp, local} {
		server := &http.Server{Handler: answer}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
	}
	return tcp.Addr().(*net.TCPAddr).Port
}
