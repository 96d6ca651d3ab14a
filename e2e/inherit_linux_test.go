package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

// inheritCases are attempts by what a caller leaves lying about: descriptors, variables, signals, groups, keys.
func inheritCases() []attackCase {
	const names = canaryVariables
	env := func(id, what, list string) attackCase {
		return attackCase{id: id, what: what, tries: []try{{act: "env-has " + list, want: "ENOENT"}}}
	}
	split := strings.Index(names, "SSH_AUTH_SOCK")
	sockets := env("FE07", "find the sockets of the caller's session", names[split:])
	sockets.tries = append(sockets.tries, try{act: "unix {socket}", want: "ENOENT"})
	return []attackCase{
		{id: "FE01", what: "use a descriptor of a host file", test: inheritedFile},
		{id: "FE02", what: "leave by a descriptor of a host directory", test: inheritedDirectory},
		{id: "FE03", what: "have 0, 1 and 2 closed by the caller", test: closedStandard},
		{id: "FE04", what: "reopen standard input with more rights", test: reopenedInput},
		env("FE05", "find a secret variable", "API_TOKEN CANARY_VARIABLE AWS_SECRET_ACCESS_KEY"),
		env("FE06", "find a variable that loads code", names[strings.Index(names, "LD_LIBRARY_PATH"):split]),
		sockets,
		{id: "FE08", what: "inherit umask, ignored and blocked signals", test: signalState},
		{id: "FE09", what: "show supplementary groups", test: groups},
		{id: "FE10", what: "read a key of the caller's session keyring", test: sessionKey},
	}
}

// passing lets a command have a file as descriptor 3.
func passing(f *os.File) func(*exec.Cmd) {
	return func(c *exec.Cmd) { c.ExtraFiles = []*os.File{f} }
}

func inheritedFile(t *testing.T, w *world) {
	f, err := os.OpenFile(w.secret, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	const act = "fd-has id_canary"
	e := w.do(t, passing(f), append([]string{built.probe}, fields(act)...)...)
	require.True(t, try{act: act}.live(e), "the control\n%v", e)
	e = w.do(t, passing(f), w.nsrun(nil, append([]string{built.probe}, fields(act)...)...)...)
	assert.True(t, try{want: "EBADF"}.stopped(e), e)
	e = w.do(t, passing(f), w.nsrun(nil, "ls", "/proc/self/fd")...)
	assert.Equal(t, "0\n1\n2\n3\n", e.stdout, "only the standard three, and that of ls itself")
}

// CVE-2024-21626.
func inheritedDirectory(t *testing.T, w *world) {
	f, err := os.Open(w.home)
	require.NoError(t, err)
	defer f.Close()
	act := []string{built.probe, "openat", "3", ".ssh/id_canary"}
	e := w.do(t, passing(f), act...)
	require.True(t, try{}.live(e), "the control\n%v", e)
	e = w.do(t, passing(f), w.nsrun(nil, act...)...)
	assert.True(t, try{want: "EBADF"}.stopped(e), e)
	// --result passes a descriptor to nsrun; it is not passed on.
	e = w.do(t, func(c *exec.Cmd) { c.ExtraFiles = []*os.File{f, os.Stderr} }, w.nsrun([]string{"--result", "FD:4"}, "ls", "/proc/self/fd")...)
	assert.Equal(t, "0\n1\n2\n3\n", e.stdout, e)
}

// Go would take a new descriptor 0 for its own use; the command must find /dev/null there, or what it may have.
func closedStandard(t *testing.T, w *world) {
	for mask := 1; mask < 8; mask++ {
		out := w.work + "/fds"
		script := "ls -l /proc/self/fd | sed 's/.* \\([0-9]*\\) -> /\\1 /' >" + out
		words := append([]string{built.probe, "close-std", strconv.Itoa(mask)}, w.nsrun(nil, "sh", "-c", script)...)
		e := w.do(t, nil, words...)
		assert.Equal(t, 0, e.code, "mask %d\n%v", mask, e)
		data, err := os.ReadFile(out)
		require.NoError(t, err, "mask %d", mask)
		for line := range strings.Lines(string(data)) {
			fd, target, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.Atoi(fd)
			if err != nil || n > 2 {
				assert.True(t, err != nil || n == 3, "mask %d: %s", mask, line) // of ls, which reads the directory
				continue
			}
			if mask&(1<<n) != 0 && n != 1 { // 1 is the file that the script writes
				assert.Equal(t, "/dev/null", target, "mask %d: descriptor %d", mask, n)
			}
		}
		require.NoError(t, os.Remove(out))
	}
}

// CVE-2016-9962's kind. Landlock refuses it: the file lies below nothing that is granted.
func reopenedInput(t *testing.T, w *world) {
	need(t, testenv.Landlock() > 0, "Landlock")
	f, err := os.Open(w.secret)
	require.NoError(t, err)
	defer f.Close()
	from := func(c *exec.Cmd) { c.Stdin = f }
	act := []string{built.probe, "open", "rw", "/proc/self/fd/0"}
	e := w.do(t, from, act...)
	require.True(t, try{}.live(e), "the control\n%v", e)
	e = w.do(t, from, w.nsrun(nil, act...)...)
	assert.True(t, try{want: "EACCES EROFS ENOENT"}.stopped(e), e)
	dir, err := os.Open(w.home)
	require.NoError(t, err)
	defer dir.Close()
	e = w.do(t, func(c *exec.Cmd) { c.Stdin = dir }, w.nsrun(nil, "echo", "ran")...)
	refusal(t, e, "directory of the host")
}

// statusOf reads the lines of /proc/self/status that cat sees of itself: a C program, which changes none of them.
func statusOf(e ending) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(e.stdout) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.Join(fields(value), " ")
	}
	return all
}

func signalState(t *testing.T, w *world) {
	status := []string{"cat", "/proc/self/status"}
	control := statusOf(w.do(t, nil, append([]string{built.probe, "signal-state"}, status...)...))
	require.Equal(t, "0000", control["Umask"], "the control")
	require.NotEqual(t, strings.Repeat("0", 16), control["SigBlk"], "the control")
	require.NotEqual(t, strings.Repeat("0", 16), control["SigIgn"], "the control")
	inside := statusOf(w.do(t, nil, append([]string{built.probe, "signal-state"}, w.nsrun(nil, status...)...)...))
	assert.Equal(t, "0022", inside["Umask"])
	assert.Equal(t, strings.Repeat("0", 16), inside["SigBlk"])
	assert.Equal(t, strings.Repeat("0", 16), inside["SigIgn"])
}

// groups: the caller's groups stay for the host's permission checks, as doc/security.md says; they have no names or numbers inside.
func groups(t *testing.T, w *world) {
	more := func(c *exec.Cmd) {
		if os.Getuid() == 0 {
			c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid), Groups: []uint32{4242, 4243}}
		}
	}
	e := w.do(t, more, w.nsrun(nil, "cat", "/proc/self/status")...)
	require.Equal(t, 0, e.code, e)
	for _, g := range fields(statusOf(e)["Groups"]) {
		assert.Contains(t, []string{strconv.Itoa(w.gid), "65534"}, g, "no number of the host")
	}
	assert.Equal(t, fmt.Sprintf("%[1]d %[1]d %[1]d %[1]d", w.gid), statusOf(e)["Gid"])
}

func sessionKey(t *testing.T, w *world) {
	act := []string{built.probe, "key"}
	e := w.do(t, nil, append([]string{built.probe, "keyring"}, act...)...)
	word, rest := verdict(e)
	need(t, word != "NA" && !strings.HasPrefix(rest, "ENOSYS"), "keyrings: "+rest)
	require.True(t, try{}.live(e), "the control\n%v", e)
	e = w.do(t, nil, append([]string{built.probe, "keyring"}, w.nsrun(nil, act...)...)...)
	assert.True(t, try{want: "EPERM"}.stopped(e), e)
	// Without the filter there is still the keyring of its own.
	e = w.do(t, nil, append([]string{built.probe, "keyring"}, w.nsrun([]string{"--seccomp", "off"}, act...)...)...)
	assert.True(t, try{want: "ENOKEY EACCES"}.stopped(e), e)
}
