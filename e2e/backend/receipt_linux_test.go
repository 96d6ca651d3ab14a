package backend_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

// inside is what the helper finds about itself.
type inside struct {
	UID, GID       int
	Spaces, Status map[string]string
	Limits         string
	PidMax         string `json:"pid_max"`
	Interfaces     []string
}

func (w *world) reports(t *testing.T, r reply) (i inside) {
	t.Helper()
	require.True(t, r.Done, "%v", r)
	require.NoError(t, json.Unmarshal(r.Found, &i))
	return i
}

// limitLines are the limits as proc_pid_limits(5) has them.
var limitLines = map[string]string{
	"core": "Max core file size", "open_files": "Max open files", "cpu_seconds": "Max cpu time", "pids": "Max processes",
	"file_size": "Max file size", "stack": "Max stack size", "locked": "Max locked memory", "address_space": "Max address space",
	"message_queues": "Max msgqueue size", "pending_signals": "Max pending signals",
}

func TestReceiptIsWhatIsFoundInside(t *testing.T) {
	each(t, true, func(t *testing.T, b box) {
		outside := b.reports(t, replies(t, b.do(t, nil, built.act, "report"))[0])
		flags := b.shown("--limit", "open_files=200", "--limit", "cpu_seconds=100", "--limit", "file_size_mb=50", "--limit", "stack_mb=4", "--limit", "locked_mb=1")
		reported, e := b.runForResult(t, flags, batch(t, [][]string{{"report"}, {"domains"}, {"signal", "{ppid}"}, {"tcp", b.tcp}})...)
		require.Equal(t, 0, e.code, e)
		all, r := replies(t, e), reported.Receipt
		found := b.reports(t, all[0])
		assert.Equal(t, []int{b.uid, b.gid}, []int{found.UID, found.GID}, "the ids are the caller's")
		spaces(t, r, outside, found)
		confinement(t, r, outside, found)
		limits(t, r, found)
		domains(t, r, all[1], all[2])
		switch {
		case r.Network == "none" && r.NetworkBy == "network namespace":
			assert.Subset(t, []string{"lo"}, found.Interfaces)
			assert.Contains(t, r.Namespaces, "net")
		case r.Network == "none":
			assert.Equal(t, "seccomp", r.NetworkBy)
			require.NotNil(t, r.Seccomp)
		}
		assert.Equal(t, r.Network == "host", all[3].Done, "the network: %v", all[3])
		assert.Equal(t, r.KillTree == "pid namespace" || r.KillTree == "container", found.Spaces["pid"] != outside.Spaces["pid"], r.KillTree)
	})
}

// spaces: those that the receipt names, and no others, differ from the host's.
func spaces(t *testing.T, r receipt, outside, found inside) {
	t.Helper()
	var own []string
	for _, name := range []string{"user", "mount", "pid", "ipc", "uts", "net", "cgroup"} {
		link := map[string]string{"mount": "mnt"}[name]
		if link == "" {
			link = name
		}
		require.NotEmpty(t, found.Spaces[link])
		if found.Spaces[link] != outside.Spaces[link] {
			own = append(own, name)
		}
	}
	assert.ElementsMatch(t, r.Namespaces, own, "namespaces of the sandbox's own")
}

func confinement(t *testing.T, r receipt, outside, found inside) {
	t.Helper()
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if r.Capabilities == "none" {
			assert.Empty(t, strings.Trim(found.Status[set], "0"), set)
			continue
		}
		assert.Equal(t, "the caller's", r.Capabilities)
		assert.Equal(t, outside.Status[set], found.Status[set], set)
	}
	assert.Equal(t, map[bool]string{true: "1", false: outside.Status["NoNewPrivs"]}[r.NoNewPrivs], found.Status["NoNewPrivs"])
	filters, _ := strconv.Atoi(found.Status["Seccomp_filters"])
	before, _ := strconv.Atoi(outside.Status["Seccomp_filters"])
	if r.Seccomp == nil {
		assert.Equal(t, before, filters, "no filter")
		return
	}
	assert.Equal(t, "2", found.Status["Seccomp"])
	assert.GreaterOrEqual(t, filters, before+r.Seccomp.Filters, "filters")
}

func limits(t *testing.T, r receipt, found inside) {
	t.Helper()
	for _, l := range r.Limits {
		name, text, _ := strings.Cut(l.Limit, "=")
		soft, hard, both := strings.Cut(text, ":")
		if !both {
			hard = soft
		}
		if l.By == "kernel.pid_max" {
			most, _ := strconv.Atoi(text)
			have, err := strconv.Atoi(found.PidMax)
			require.NoError(t, err)
			assert.Greater(t, have, most, "numbers begin at 1")
			assert.LessOrEqual(t, have, most+4, "nsrun's own processes count, too")
			continue
		}
		if l.By != "rlimit" { // TestLimits tries them
			assert.Contains(t, []string{"cgroup", "cgroup v1", "cgroup v2", "pipe", "tmpfs"}, l.By, l.Limit)
			continue
		}
		known, ok := limitLines[name]
		require.True(t, ok, "a limit that this test does not know: %s", l.Limit)
		i := strings.Index(found.Limits, known)
		require.GreaterOrEqual(t, i, 0, known)
		fields := strings.Fields(found.Limits[i+len(known):])
		for i, text := range []string{soft, hard} {
			if l.Limit == "core=0" { // 1 byte, unless less was in force before
				assert.Contains(t, []string{"0", "1"}, fields[i], l.Limit)
				continue
			}
			if l.Default { // or less, if that was in force before
				most, _ := strconv.ParseUint(text, 10, 64)
				have, err := strconv.ParseUint(fields[i], 10, 64)
				assert.True(t, err == nil && have <= most, "%s, at most: %s", l.Limit, fields[i])
				continue
			}
			assert.Equal(t, text, fields[i], "%s, soft and hard", l.Limit)
		}
	}
	for _, name := range []string{"open_files", "cpu_seconds", "file_size", "stack", "locked"} {
		assert.True(t, slices.ContainsFunc(r.Limits, func(l limit) bool { return strings.HasPrefix(l.Limit, name+"=") }), "%s is in the receipt", name)
	}
}

// domains: there is a Landlock domain, and its scope for signals works, exactly if the receipt has it.
func domains(t *testing.T, r receipt, stacked, signal reply) {
	t.Helper()
	if testenv.Landlock() == 0 {
		assert.Nil(t, r.Landlock, "the kernel has none")
		return
	}
	assert.Equal(t, r.Landlock == nil, stacked.Done, "Landlock: %v", stacked)
	if r.Landlock != nil {
		assert.NotEmpty(t, r.Landlock.Rights)
		assert.Positive(t, r.Landlock.Rules)
		if slices.Contains(r.Landlock.Scopes, "scope_signal") {
			assert.False(t, signal.Done, "the process beside the command cannot be signalled")
		}
	}
}

func TestHostNetwork(t *testing.T) {
	each(t, true, func(t *testing.T, b box) {
		list := [][]string{{"tcp", b.tcp}, {"udp", b.udp}, {"unix", "@" + b.mark}, {"packet", "@" + b.mark + "-datagram"}, {"unix", b.stream}, {"report"}}
		reported, e := b.runForResult(t, b.shown("--net", "host"), batch(t, list)...)
		require.Equal(t, 0, e.code, e)
		all, r := replies(t, e), reported.Receipt
		assert.Equal(t, "host", r.Network)
		assert.Empty(t, r.NetworkBy)
		assert.True(t, all[0].Done && all[1].Done, "the host's network is there: %v, %v", all[0], all[1])
		space, err := os.Readlink("/proc/self/ns/net")
		require.NoError(t, err)
		assert.Equal(t, space, b.reports(t, all[5]).Spaces["net"])
		assert.NotContains(t, r.Holds, "network")
		assert.NotContains(t, r.Holds, "loopback")
		reached := all[2].Done || all[3].Done || all[4].Done
		assert.Equal(t, !slices.Contains(r.Holds, "unix_sockets"), reached, "Unix sockets: %v", all[2:5])
		if r.Landlock != nil && slices.Contains(r.Landlock.Scopes, "scope_abstract_unix") {
			assert.False(t, all[2].Done || all[3].Done, "the scope for abstract sockets: %v", all[2:4])
		}
	})
}

// TestRequire has each guarantee required: what a receipt says holds is met, what it says is lost refuses the run and says so.
func TestRequire(t *testing.T) {
	each(t, true, func(t *testing.T, b box) {
		reported, _ := b.runForResult(t, nil, "true")
		r := reported.Receipt
		e := b.run(t, []string{"--require", strings.Join(r.Holds, ",")}, "echo", "ran")
		assert.Equal(t, "ran\n", e.stdout, "all that holds can be required: %v", e)
		for _, name := range r.Lost {
			e := b.run(t, []string{"--require", name}, "echo", "ran")
			assert.Equal(t, 125, e.code, "%s is lost\n%v", name, e)
			assert.Empty(t, e.stdout)
			assert.Contains(t, e.stderr, name+": ")
		}
	})
}
