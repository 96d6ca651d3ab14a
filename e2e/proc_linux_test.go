package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// procCases are attempts by /proc, /sys and cgroups.
func procCases() []attackCase {
	knob := func(id, name string) attackCase {
		return attackCase{id: id, what: "write " + name, tries: []try{{act: "open w " + name, want: "EACCES EROFS ENOENT ENODATA", user: refused, lone: "a container has it read-only"}}}
	}
	// Pid 1 here, another process of the same user outside.
	init := func(id, what, mode, file, want string) attackCase {
		return attackCase{id: id, what: what, tries: []try{{act: "open " + mode + " /proc/1/" + file, control: "open " + mode + " /proc/{pid}/" + file, want: want}}}
	}
	return []attackCase{
		knob("PR01", "/proc/sysrq-trigger"), knob("PR02", "/proc/sys/kernel/core_pattern"), knob("PR03", "/proc/sys/kernel/hostname"),
		knob("PR04", "/proc/sys/kernel/ns_last_pid"), knob("PR05", "/proc/sys/user/max_user_namespaces"), knob("PR06", "/proc/sys/net/ipv4/ip_forward"),
		{id: "PR07", what: "read the kernel's log", tries: []try{
			{act: "nonempty /proc/kmsg", want: "ENODATA EPERM EACCES ENOENT", lone: noEqual},
			{act: "open r /dev/kmsg", want: "EPERM EACCES ENOENT", user: refused, lone: "a container has none"},
			{act: sys(sysSyslog, 3, 0, 0), want: "EPERM", user: refused}}},
		{id: "PR08", what: "read kernel memory", tries: []try{{act: "nonempty /proc/kcore", want: "ENODATA EPERM EACCES ENOENT", lone: noEqual},
			{act: "open r /proc/kcore", want: "ENODATA EPERM EACCES ENOENT", user: refused, lone: "a container has none"}}},
		{id: "PR09", what: "learn the kernel's addresses", tries: []try{{act: "kallsyms", want: "ENODATA EACCES ENOENT", user: refused, lone: "the kernel may hide them"}}},
		{id: "PR10", what: "list keys", tries: []try{{act: "nonempty /proc/keys", want: "ENODATA EACCES ENOENT", lone: "this user may have none"}}},
		{id: "PR11", what: "list timers", tries: []try{{act: "nonempty /proc/timer_list", want: "ENODATA EACCES ENOENT", user: refused, lone: "the kernel may have no such file"}}},
		{id: "PR12", what: "find the caller's variables in pid 1", tries: []try{{act: "grep /proc/1/environ {canary}", control: "grep /proc/{pid}/environ {canary}", want: "EACCES ENOENT"}}},
		{id: "PR13", what: "find the host's paths in pid 1's arguments", tries: []try{
			{act: "grep /proc/1/cmdline {work}", control: "grep /proc/{pid}/cmdline {marker}", want: "EACCES ENOENT ENODATA"}}},
		{id: "PR15", what: "list pid 1's descriptors", tries: []try{{act: "list /proc/1/fd", control: "list /proc/{pid}/fd", want: "EACCES ENOENT"}}},
		init("PR16", "open pid 1's memory", "rw", "mem", "EACCES ENOENT"),
		init("PR17", "read pid 1's maps", "r", "maps", "EACCES ENOENT"),
		init("PR19", "read pid 1's program", "r", "exe", "EACCES ENOENT"),
		{id: "PR20", what: "find a process of the host", tries: []try{{act: "proc-has {marker}", want: "ESRCH"}}},
		{id: "PR21", what: "lower its own oom_score_adj", tries: []try{{act: "oom", want: "EACCES EPERM", user: refused, lone: "it takes CAP_SYS_RESOURCE, which a container's root may lack"}}},
		{id: "PR22", what: "see more of /sys than the processors", tries: []try{{act: "stat /sys/kernel", want: "ENOENT"}, {act: "list /sys devices", want: "ENOENT"},
			{act: "list /sys/devices system", want: "ENOENT"}, {act: "list /sys/devices/system cpu", want: "ENOENT"}}},
		{id: "PR23", what: "make a cgroup", tries: []try{{act: "cgroup-mkdir", want: "ENOENT EROFS EACCES", user: refused, lone: "the host may have no cgroups to write to"}}},
		{id: "PR24", what: "open a release_agent", tries: []try{{act: "release-agent", want: "ENOENT EACCES", user: refused, lone: "version 2 has none"}}},
		{id: "PR25", what: "take a mask away", tries: []try{
			{act: "umount /proc/keys", want: "EPERM", lone: noEqual}, {act: "unlink /proc/keys", want: "EPERM EBUSY EROFS EACCES", lone: noEqual},
			{act: "umount /proc/sys", want: "EPERM", lone: noEqual}, {act: "nonempty /proc/keys", want: "ENODATA ENOENT", lone: "this user may have none"}}},
		{id: "PR26", what: "read the host's boot parameters and the id of its boot", tries: []try{
			{act: "nonempty /proc/cmdline", want: "ENODATA EACCES ENOENT"}}, after: bootID},
		{id: "PR27", what: "find the caller's variables in a thread of pid 1", tries: []try{
			{act: "grep /proc/1/task/1/environ {canary}", control: "grep /proc/{pid}/task/{pid}/environ {canary}", want: "EACCES ENOENT"}}},
	}
}

// bootID compares what programs read as the id of the boot with the host's. It must be a UUID, and the same in each run.
func bootID(t *testing.T, w *world) {
	const name = "/proc/sys/kernel/random/boot_id"
	host, err := os.ReadFile(name)
	require.NoError(t, err)
	first, second := w.probe(t, nil, "cat "+name), w.probe(t, nil, "cat "+name)
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$`, first.stdout)
	assert.NotEqual(t, string(host), first.stdout)
	assert.Equal(t, first.stdout, second.stdout)
	e := w.probe(t, nil, "open w "+name)
	assert.True(t, try{want: "EROFS EACCES"}.stopped(e), e)
}

func procTests() []attackCase {
	return []attackCase{
		{id: "PR14", what: "find mounts that are not planned, or paths of the host that are not granted", test: plannedMounts},
		{id: "PR18", what: "overwrite pid 1's program, nsrun's and its own", test: overwrite},
	}
}

// plannedMounts asks nsrun for its plan, and the sandbox for what there is.
func plannedMounts(t *testing.T, w *world) {
	words := w.nsrun(nil, "true")
	words[1] = "plan"
	words = slices.Insert(words, 2, "--json")
	e := w.do(t, nil, words...)
	require.Equal(t, 0, e.code, e)
	var plan struct{ Mounts []struct{ Dest string } }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &plan))
	planned := []string{"/", "/dev", "/proc"}
	for _, m := range plan.Mounts {
		planned = append(planned, m.Dest)
	}
	info := w.in(t, nil, "cat", "/proc/self/mountinfo")
	lines := mountLines(info.stdout)
	require.Greater(t, len(lines), 10)
	for _, m := range lines {
		parts := path.Dir(m.point) // of what /dev, /proc and a symlink of /etc are expanded to
		own := strings.HasPrefix(parts+"/", "/dev/") || strings.HasPrefix(parts+"/", "/proc/") || m.fstype == "tmpfs" && strings.HasPrefix(m.point, "/run/")
		assert.True(t, own || slices.Contains(planned, m.point), "%+v is in the plan", m)
	}
	for _, name := range []string{w.secret, w.grant, w.run, w.tmp, w.tmpFile} {
		assert.NotContains(t, info.stdout, name, "no path that is not granted")
	}
	assert.NotContains(t, w.outside(t, "cat /proc/self/mountinfo").stdout, "nsrun", "and the host has none of it")
}

func overwrite(t *testing.T, w *world) {
	sum := func() [32]byte {
		data, err := os.ReadFile(built.nsrun)
		require.NoError(t, err)
		return sha256.Sum256(data)
	}
	before := sum()
	for _, c := range []try{
		{act: "open w /proc/1/exe", want: "EACCES ENOENT ETXTBSY"}, {act: "open w {nsrun}", want: "ENOENT"},
		{act: "open w /proc/self/exe", want: "EROFS ETXTBSY EACCES"}, {act: "open trunc {probe}", want: "EROFS ETXTBSY EACCES"},
	} {
		e := w.probe(t, nil, c.act)
		assert.True(t, c.stopped(e), "%s\n%v", c.act, e)
	}
	// With its own directory granted, nsrun's binary is as read-only as the rest of it.
	e := w.probe(t, []string{"--ro", path.Dir(built.nsrun)}, "open w {nsrun}")
	assert.True(t, try{want: "EROFS EACCES ETXTBSY"}.stopped(e), e)
	assert.Equal(t, before, sum(), "nsrun's binary is as it was")
}
