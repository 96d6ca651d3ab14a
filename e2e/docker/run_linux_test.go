package docker_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExitCodes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write(t, "work/script", "no header, not executable")
		for _, c := range []struct {
			name string
			want int
			args []string
		}{
			{"success", 0, []string{"--", "true"}},
			{"the command's own", 7, []string{"--", "sh", "-c", "exit 7"}},
			{"SIGKILL", 137, []string{"--", "sh", "-c", "kill -9 $$"}},
			{"SIGTERM", 143, []string{"--", "sh", "-c", "kill -15 $$"}},
			{"not found", 127, []string{"--", "no-such-command"}},
			{"not executable", 126, []string{"--", w.path("work/script")}},
			{"a directory", 126, []string{"--", "/usr"}},
			{"set-up: another user", 125, []string{"--uid", "7", "--", "true"}},
			{"set-up: a terminal", 125, []string{"--tty", "--", "true"}},
		} {
			o := w.run(t, c.args...)
			assert.Equal(t, c.want, o.code, "%s: %s", c.name, o.stderr)
			assert.Empty(t, o.stdout, c.name)
		}
	})
}

func TestStreamsPassThroughByteForByte(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		data := make([]byte, 1<<20+3)
		random := rand.New(rand.NewPCG(1, 2))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		for _, script := range []string{"cat", "cat >&2"} {
			cmd := w.command("--", "sh", "-c", script)
			cmd.Stdin = bytes.NewReader(data)
			o := finish(t, cmd)
			require.Equal(t, 0, o.code)
			assert.True(t, o.stdout+o.stderr == string(data), "%s: %d and %d of %d bytes, and nothing of the engine's", script, len(o.stdout), len(o.stderr), len(data))
		}
	})
}

// A reader sees the end of the output as soon as the command lets go of it: pid 1 and the daemon hold nothing.
func TestOutputEndsWithTheCommands(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		out, err := os.CreateTemp(w.dir, "out")
		require.NoError(t, err)
		defer out.Close()
		_, err = out.WriteString("before ")
		require.NoError(t, err)
		cmd := w.command("--", "sh", "-c", "echo inside")
		cmd.Stdout = out // a file keeps its place
		require.NoError(t, cmd.Run())
		data, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		assert.Equal(t, "before inside\n", string(data))
		o := w.probe(t, "descriptors")
		assert.Equal(t, "", o.stdout, "descriptors beside the standard ones")
		assert.Equal(t, 0, o.code, o.stderr)
	})
}

func TestLongCommandAndEnvironment(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		long := strings.Repeat("x", 100<<10)
		args := []string{"--setenv", "LONG=" + long, "--", "sh", "-c", `echo ${#LONG} ${#1} ${#2} ${#3}`, "sh", long, long, long}
		assert.Equal(t, "102400 102400 102400 102400\n", w.run(t, args...).stdout, "orders are longer than a message of a socket")
	})
}

func TestEnvironmentIsClean(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const secret = "canary-of-the-callers-environment"
		w.env = append(w.env, "SOME_VARIABLE="+secret, "DOCKER_PASSWORD_X="+secret)
		o := w.run(t, "--setenv", "MINE=given-in-orders", "--", "sh", "-c", "env; cat /proc/1/environ; cat /proc/*/environ")
		assert.NotContains(t, o.stdout, secret)
		assert.Contains(t, o.stdout, "MINE=given-in-orders")
		assert.NotContains(t, o.stdout, "container=")
		cmd := w.command("--setenv", "MINE=given-in-orders", "--", "sh", "-c", "sleep 1000 # word-of-the-command")
		require.NoError(t, cmd.Start())
		defer func() { _ = cmd.Wait() }()
		defer func() { _ = cmd.Process.Kill() }()
		testenv.Eventually(t, func() bool { return containers(t) != "" }, "the container runs")
		text, err := built.daemon.Docker("inspect", containers(t)).CombinedOutput()
		require.NoError(t, err)
		for _, word := range []string{secret, "given-in-orders", "word-of-the-command"} {
			assert.False(t, strings.Contains(string(text), word), "docker inspect shows %s", word)
		}
		require.NoError(t, cmd.Process.Kill())
		testenv.Eventually(t, func() bool { return containers(t) == "" }, "the container is gone")
	})
}

func TestConfinement(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		status := w.shell(t, "cat /proc/self/status")
		for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
			"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			assert.Contains(t, status, want)
		}
		assert.Equal(t, "sandbox\n", w.shell(t, "cat /proc/sys/kernel/hostname"))
		assert.Equal(t, "1\n", w.shell(t, "unshare -Ur true 2>/dev/null; mount -t tmpfs x /tmp 2>/dev/null; test -w /proc/sysrq-trigger; echo $?"))
		assert.NotEqual(t, 0, w.run(t, "--", "sh", "-c", "cat /sys/kernel/uevent_seqnum").code, "/sys is not the kernel's")
		seccomp := w.run(t, "--seccomp-deny", "mkdirat", "--seccomp-deny", "mkdir", "--", "mkdir", "/tmp/x")
		assert.Contains(t, seccomp.stderr, "Operation not permitted", "a denied call")
	})
}

// defaults are the limits that every sandbox has, by RLIMIT_*: CPU time, size of files, locked memory, pending signals, message queues.
var defaults = map[string][2]uint64{"0": {86400, 86401}, "1": {64 << 30, 64 << 30}, "8": {64 << 20, 64 << 20}, "11": {4096, 4096}, "12": {819200, 819200}}

// lower is a line "number soft hard" with the default limits, where these are lower.
func lower(line string) string {
	word := strings.Fields(line)
	if len(word) != 3 {
		return line
	}
	most, ok := defaults[word[0]]
	if !ok {
		return line
	}
	for i := range most {
		if n, err := strconv.ParseUint(word[1+i], 10, 64); err == nil && n > most[i] {
			word[1+i] = strconv.FormatUint(most[i], 10)
		}
	}
	return strings.Join(word, " ")
}

func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		assert.Equal(t, "77\n", w.shell(t, "ulimit -n", "--limit", "open_files=77"))
		own := w.command()
		own.Path, own.Args = built.probe, []string{built.probe, "limits"}
		inside := strings.Split(w.probe(t, "limits").stdout, "\n")
		for i, line := range strings.Split(finish(t, own).stdout, "\n") {
			if i == 4 || i == 6 || i == 7 { // core is 0 by policy; processes are cut to pid_max; a Go program raises open files
				continue
			}
			require.Less(t, i, len(inside))
			assert.Equal(t, lower(line), inside[i], "the caller's limit holds inside, or a default one that is lower")
		}
	})
}

func TestResult(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		r := w.result(t, "--", "sh", "-c", "exit 3")
		assert.Equal(t, "exit", r.Verdict)
		assert.Equal(t, 3, r.Code)
		assert.Equal(t, "docker", r.Receipt.Backend)
		var features []string
		for _, n := range r.Receipt.Notes {
			features = append(features, n.Feature)
		}
		assert.Subset(t, features, []string{"trust", "mount flags", "mount points"})
	})
}

func TestSelfTest(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		assert.Equal(t, "here\n", w.shell(t, "echo here", "--self-test"))
	})
}

// Limits on all processes together, which only control groups have.
func TestSharedLimits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		o := w.run(t, "--limit", "pids=12", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 5 & done; wait")
		assert.Regexp(t, "fork|Resource temporarily unavailable", o.stderr)
		assert.Equal(t, 137, w.run(t, "--limit", "memory_mb=64", "--", "sh", "-c", "x=$(head -c 200m /dev/zero | tr '\\0' x); echo ${#x}").code, "memory")
	})
}
