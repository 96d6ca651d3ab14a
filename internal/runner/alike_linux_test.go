package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// runAlone is this test's binary as a program that runs one command with its own descriptors, as cmd/nsrun does.
func runAlone(request string) {
	var req plan.Request
	err := json.Unmarshal([]byte(request), &req)
	if err == nil {
		_ = os.Unsetenv("NSRUN_TEST_ALONE")
		req.Environ = os.Environ()
		_, _, err = Foreground(req, backend.Options{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// confinement tells in lines what a command is confined by. What differs from one process to the next is left out, or made a word: pids are
// "self" or "other".
const confinement = `
while read -r line; do
	case $line in
	Name:*|Umask:*|State:*|Uid:*|Gid:*|Groups:*|CoreDumping:*|Sig[IPBC]*|ShdPnd:*|Cap*|NoNewPrivs:*|Seccomp*|Speculation*|TracerPid:*|THP*) echo "$line";;
	esac
done </proc/$$/status
read -r line </proc/$$/stat
set -- ${line##*) }
for what in parent:$2 group:$3 session:$4; do
	[ ${what#*:} = $$ ] && echo ${what%:*} self || echo ${what%:*} other
done
echo tty $5 nice ${16}
umask; pwd
for f in limits uid_map gid_map setgroups oom_score_adj cgroup mountinfo; do echo "== $f"; cat /proc/$$/$f; done
echo == descriptors
for fd in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
	[ ! -e /proc/$$/fd/$fd ] || echo $fd $(readlink /proc/$$/fd/$fd)
done
echo == environment; env
echo == refused
unshare -U true || echo no user namespace
unshare -m true || echo no mount namespace
kill -0 1 || echo no signal for pid 1
`

var numbers = regexp.MustCompile(`(pipe|socket|nsrun/run)(:\[\d+\]|/[0-9a-f]{16})`)

// alike makes what differs by chance the same: numbers of pipes, of mounts and their devices, names of private directories, and the order of variables.
func alike(text string) []string {
	lines := strings.Split(numbers.ReplaceAllString(text, "$1"), "\n")
	mounts, variables := slices.Index(lines, "== mountinfo"), slices.Index(lines, "== environment")
	for i := max(mounts, 0) + 1; i < len(lines) && !strings.HasPrefix(lines[i], "== "); i++ {
		if words := strings.Fields(lines[i]); len(words) > 3 {
			lines[i] = strings.Join(words[3:], " ")
		}
	}
	if end := slices.Index(lines, "== refused"); variables >= 0 && end > variables {
		slices.Sort(lines[variables+1 : end])
	}
	return lines
}

// TestACommandIsConfinedAlike in a session and alone.
func TestACommandIsConfinedAlike(t *testing.T) {
	type build = func(*testing.T, *Builder) Policy
	variants := map[string]build{
		"default": func(t *testing.T, b *Builder) Policy { return built(t, b) },
		"limits": func(t *testing.T, b *Builder) Policy {
			return built(t, b.Limit("open_files", 100).Limit("core", 0).SetEnv("A", "b").Network(policy.NetworkHost))
		},
		"without Landlock": func(t *testing.T, b *Builder) Policy {
			if !probe.Quick().Can(facts.UserNS) {
				t.Skip("there are no user namespaces here")
			}
			b.spec.NoLandlock, b.spec.Backend = true, policy.BackendNative
			p, err := b.Build()
			require.NoError(t, err)
			return p
		},
		"Landlock alone": func(t *testing.T, b *Builder) Policy {
			if testenv.Landlock() == 0 {
				t.Skip("this kernel has no Landlock")
			}
			p, err := b.Backend(policy.BackendLandlock).Build()
			require.NoError(t, err)
			return p
		},
	}
	for name, build := range variants {
		t.Run(name, func(t *testing.T) {
			p := build(t, NewPolicy().Workspace(t.TempDir()))
			s, err := Open(context.Background(), p)
			if err != nil && name == "Landlock alone" {
				t.Skipf("no session without namespaces here: %v", err)
			}
			require.NoError(t, err)
			defer s.Close()
			in := sh(t, s, confinement)
			request, err := json.Marshal(plan.Request{Policy: p, Command: Shell(confinement)})
			require.NoError(t, err)
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), "NSRUN_TEST_ALONE="+string(request))
			var alone, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &alone, &stderr
			require.NoError(t, cmd.Run(), stderr.String())
			text := string(in.Stdout)
			for _, word := range []string{"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Max open files", "session self", "== refused\nno user"} {
				assert.Contains(t, text, word, "positive control: it tells")
			}
			assert.Equal(t, alike(alone.String()), alike(text))
		})
	}
}

// TestWhatTheOwnerHasInherited, and left open to be inherited, ends with the owner's own end of it: its spawner does not keep it, nor does
// a sandbox.
func TestWhatTheOwnerHasInherited(t *testing.T) {
	needsChildren(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	m := mark("inherited")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "NSRUN_TEST_OWNER="+m)
	cmd.ExtraFiles = []*os.File{w, w, w, w, w}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		eventually(t, "everything is gone", func() bool { return len(marked(m)) == 0 })
	}()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(r.Fd()), &st))
	w.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	count := func(pid int) (n int) {
		links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		require.NoError(t, err)
		require.NotEmpty(t, links)
		for _, link := range links {
			if to, _ := os.Readlink(link); to == fmt.Sprintf("pipe:[%d]", st.Ino) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 5, count(cmd.Process.Pid), "positive control")
	spawners := below(cmd.Process.Pid)
	require.Len(t, spawners, 1)
	assert.Zero(t, count(spawners[0]))
	// Whoever else has it would keep the pipe open: it ends with the owner, though the spawner is kept from ending.
	resume := stopped(t, spawners[0])
	require.NoError(t, cmd.Process.Kill())
	returns(t, "Read", func() {
		n, err := r.Read(make([]byte, 1))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, io.EOF)
	})
	assert.Equal(t, "T", state(spawners[0]), "positive control")
	resume()
	eventually(t, "the spawner has ended", func() bool { return strings.Contains("Z", state(spawners[0])) })
}
