package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// unscoped opens a session in pid and user namespaces of its own and without Landlock: nothing keeps its commands from sending signals to
// their supervisors.
func unscoped(t *testing.T, b *Builder) *Session {
	t.Helper()
	if !probe.Quick().Can(facts.UserNS) {
		t.Skip("there are no user namespaces here")
	}
	spec := b.spec
	spec.NoLandlock, spec.Backend = true, policy.BackendNative
	p, err := FromPolicy(spec, policy.Operator{})
	require.NoError(t, err)
	s, err := Open(context.Background(), p)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.Equal(t, "native", s.plan.Backend)
	require.False(t, s.sandbox.Scoped())
	return s
}

func mark(name string) string {
	return fmt.Sprintf("NSRUN_MARK=%d-%d-%s", os.Getpid(), time.Now().UnixNano(), name)
}

// returns calls f, which must return: what it waits for otherwise lasts longer than testenv.Limit.
func returns(t testing.TB, what string, f func()) {
	t.Helper()
	testenv.Returns(t, what, f)
}

// isOver checks that a session has ended, and nothing of it is left.
func isOver(t *testing.T, s *Session, mark string) {
	t.Helper()
	testenv.Receive(t, s.Done(), "the end of the session")
	assert.Empty(t, marked(mark))
	assert.False(t, s.Alive())
	_, err := s.Exec(context.Background(), []string{"true"}, nil)
	assert.ErrorIs(t, err, ErrClosed)
}

// TestACommandThatKillsItsSupervisor, which it can where no domain is around it: that ends all there is.
func TestACommandThatKillsItsSupervisor(t *testing.T) {
	for name, script := range map[string]string{
		"its parent": "kill -9 $PPID; exec sleep 1000",
		"everybody":  "i=2; while [ $i -lt 100 ]; do [ $i = $$ ] || kill -9 $i; i=$((i+1)); done 2>/dev/null; exec sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			s := unscoped(t, NewPolicy())
			assert.Equal(t, OK, sh(t, s, "kill -0 $PPID").Verdict, "positive control: it can be signalled")
			m := mark("kills")
			p, err := start(context.Background(), s, Shell("(setsid sleep 1000 &); exec sleep 1000"), ExecOptions{Env: []string{m}})
			require.NoError(t, err)
			eventually(t, "others are there", func() bool { return len(marked(m)) >= 2 })
			returns(t, "Exec", func() {
				r, err := s.Exec(context.Background(), Shell("(setsid sleep 1000 &); sleep 0.05; "+script), &ExecOptions{Env: []string{m}})
				if assert.NoError(t, err) {
					assert.Equal(t, Interrupted, r.Verdict)
				}
			})
			isOver(t, s, m)
			r, err := p.Wait()
			require.NoError(t, err)
			assert.Equal(t, Interrupted, r.Verdict)
		})
	}
}

// TestASupervisorBehindADomain cannot be signalled, nor the server.
func TestASupervisorBehindADomain(t *testing.T) {
	s := opened(t, NewPolicy())
	if !s.sandbox.Scoped() {
		t.Skip("this kernel's Landlock does not scope signals")
	}
	neighbour := echo(t, s)
	r := sh(t, s, "kill -0 $$ && echo self; kill -0 $PPID || kill -9 $PPID || kill -0 1 || echo none")
	assert.Equal(t, "self\nnone\n", string(r.Stdout))
	if s.plan.Backend == "native" { // pids are its own
		r = sh(t, s, "i=1; while [ $i -lt 100 ]; do [ $i = $$ ] || kill -9 $i && [ $i != $$ ] && echo hit $i; i=$((i+1)); done 2>/dev/null; exit 0")
		assert.Empty(t, string(r.Stdout))
	}
	neighbour.says(t, "still here")
	assert.True(t, s.Alive())
}

// TestADaemonThatKillsItsSupervisor when the command has ended long since: Kill must not say that nothing is left while it is.
func TestADaemonThatKillsItsSupervisor(t *testing.T) {
	for _, sig := range []string{"0", "9"} {
		t.Run(sig, func(t *testing.T) {
			s := unscoped(t, NewPolicy())
			m := mark("daemon")
			script := "up=$PPID; (setsid sh -c 'read go; kill -" + sig + " '$up'; echo did; exec sleep 1000' <&3 &) 3<&0; exit 0"
			p, err := start(context.Background(), s, Shell(script), ExecOptions{Env: []string{m}})
			require.NoError(t, err)
			_, err = p.Wait()
			require.NoError(t, err)
			eventually(t, "the daemon is there", func() bool { return len(marked(m)) > 0 })
			_, err = p.Stdin().Write([]byte("go\n"))
			require.NoError(t, err)
			if sig == "0" { // positive control
				word := make([]byte, 4)
				_, err = p.Stdout.Read(word)
				require.NoError(t, err)
				assert.Equal(t, "did\n", string(word))
			} else {
				isOver(t, s, m)
			}
			returns(t, "Kill", func() { assert.NoError(t, p.End()) })
			assert.Empty(t, marked(m))
		})
	}
}

// held is a program in dir whose execve waits until free is called, or the kernel loses patience (/proc/sys/fs/lease-break-time): whoever
// executes it is kept as late as can be, in memory that it shares with its supervisor. It makes a file beside it.
type held struct {
	path, made string
	lease      *os.File
}

func hold(t *testing.T, dir string) *held {
	t.Helper()
	return holdScript(t, dir, "echo freed")
}

// holdScript is hold for a program that goes on with a script.
func holdScript(t *testing.T, dir, script string) *held {
	t.Helper()
	h := &held{path: filepath.Join(dir, "held"), made: filepath.Join(dir, "made")}
	require.NoError(t, os.WriteFile(h.path, []byte("#!/bin/sh\n: >"+h.made+"\n"+script+"\n"), 0o755))
	f, err := os.Open(h.path)
	require.NoError(t, err)
	h.lease = f
	t.Cleanup(h.free)
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases on files in %s: %v", dir, err)
	}
	return h
}

func (h *held) free() { h.lease.Close() }

// wait waits until somebody wants to execute it.
func (h *held) wait(t *testing.T) {
	t.Helper()
	eventually(t, "somebody executes it", func() bool {
		kind, err := unix.FcntlInt(h.lease.Fd(), unix.F_GETLEASE, 0)
		return err == nil && kind != unix.F_WRLCK
	})
}

// pending reports whether an execve(2) of it has begun, and the kernel has held it until now. /proc/locks calls a lease that somebody waits
// for BREAKING, until the kernel loses patience.
func (h *held) pending(t *testing.T) bool {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(h.path, &st))
	_, err := unix.FcntlInt(h.lease.Fd(), unix.F_GETLEASE, 0) // notices that the time is over: time_out_leases of fs/locks.c
	require.NoError(t, err)
	locks, err := os.ReadFile("/proc/locks")
	require.NoError(t, err)
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, " LEASE ") && strings.Contains(line, " BREAKING ") && strings.Contains(line, fmt.Sprintf(":%d ", st.Ino)) {
			return true
		}
	}
	return false
}

// needsChildren skips a test that uses below, where the kernel is built without CONFIG_PROC_CHILDREN.
func needsChildren(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		t.Skipf("this kernel does not list a process's children: %v", err)
	}
}

// below lists a process's children.
func below(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(data)) {
			child := 0
			if _, err := fmt.Sscan(word, &child); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// withServer opens a session, and returns its server's pid as well.
func withServer(t *testing.T, open func() *Session) (*Session, int) {
	t.Helper()
	needsChildren(t)
	require.NoError(t, opened(t, NewPolicy()).Close()) // now there is a spawner
	spawner := spawnerOf(t)
	eventually(t, "what was closed is reaped", func() bool {
		return !slices.ContainsFunc(below(spawner), func(pid int) bool { return state(pid) == "Z" })
	})
	before := below(spawner)
	s := open()
	after := slices.DeleteFunc(below(spawner), func(pid int) bool { return slices.Contains(before, pid) })
	require.Len(t, after, 1)
	begin := time.Now()
	for ; len(below(after[0])) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > testenv.Scale(500*time.Millisecond) && hidden(t, after[0]) {
			t.Skip("the server's children cannot be seen here: /proc hides them (hidepid)")
		}
		require.Less(t, time.Since(begin), testenv.Limit(0), "the server has a child")
	}
	return s, after[0]
}

// hidden reports whether /proc is mounted so that it hides a process. Root sees it all the same, and others may.
func hidden(t *testing.T, pid int) bool {
	t.Helper()
	if _, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if word := strings.Fields(line); len(word) > 3 && word[1] == "/proc" && strings.Contains(word[3], "hidepid=") { // 0 is not told
			return true
		}
	}
	return false
}

// field is one of /proc/PID/status, or empty if there is no such process.
func field(pid int, name string) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// state is a process's, as one letter.
func state(pid int) string {
	letter, _, _ := strings.Cut(field(pid, "State"), " ")
	return letter
}

// inside is a process's pid in its own namespace.
func inside(pid int) string {
	all := strings.Fields(field(pid, "NSpid"))
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// TestASupervisorThatDiesBeforeItsCommandIsThere: a command stops another one that is about to be executed, and kills the supervisor whose
// memory that one lives in. It must not go on in memory that is used again.
func TestASupervisorThatDiesBeforeItsCommandIsThere(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", kill), func(t *testing.T) {
			dir := t.TempDir()
			s, server := withServer(t, func() *Session { return unscoped(t, NewPolicy().Workspace(dir)) })
			h := hold(t, dir)
			ended := make(chan *ExecResult, 1)
			go func() {
				r, _ := s.Exec(context.Background(), []string{h.path}, nil)
				ended <- r
			}()
			h.wait(t)
			supervisor, victim := 0, 0
			for _, pid := range below(server) {
				if children := below(pid); len(children) == 1 {
					supervisor, victim = pid, children[0]
				}
			}
			require.NotZero(t, victim)
			m := mark("attacker")
			if !kill { // positive control: it is stopped, and goes on
				r := sh(t, s, fmt.Sprintf("kill -STOP %s && kill -0 %s", inside(victim), inside(supervisor)))
				require.Equal(t, OK, r.Verdict)
				eventually(t, "it is stopped", func() bool { return state(victim) == "T" })
				require.Equal(t, OK, sh(t, s, "kill -CONT "+inside(victim)).Verdict)
				h.free()
				assert.Equal(t, "freed\n", string(testenv.Receive(t, ended, "the stopped command to go on").Stdout))
				assert.FileExists(t, h.made)
				return
			}
			returns(t, "Exec", func() {
				_, _ = s.Exec(context.Background(), Shell(fmt.Sprintf("kill -STOP %s && kill -9 %s; exec sleep 1000", inside(victim), inside(supervisor))),
					&ExecOptions{Env: []string{m}})
			})
			isOver(t, s, m)
			testenv.Receive(t, ended, "the held command's Exec")
			assert.True(t, h.pending(t), "Exec does not wait until the program can be executed")
			h.free()
			for _, pid := range []int{server, supervisor, victim} {
				eventually(t, "it has ended, and is reaped", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
			}
			assert.NoFileExists(t, h.made)
		})
	}
}
