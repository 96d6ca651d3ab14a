package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func fields(s string) []string { return strings.Fields(s) }

// fileCases are attempts on files: what the view does not show, and what it shows read-only.
func fileCases() []attackCase {
	grant, readOnly := []string{"--ro", "{grant}"}, []string{"--autonomy", "readonly"}
	noHome, noExec := []string{"--home", "none"}, []string{"--noexec"}
	system := "an ordinary user may not write there"
	inNoHome := "EROFS EACCES"
	if strings.HasPrefix(built.room, "/var/tmp/") || strings.HasPrefix(built.room, "/tmp/") { // the sandbox has such a directory of its own
		inNoHome = "REACHED"
	}
	return []attackCase{
		{id: "FS01", what: "read a secret by its path", tries: []try{{act: "open r {secret}", want: "ENOENT"}}},
		{id: "FS02", what: "list the home directory", tries: []try{{act: "list {home} project", want: "ENOENT"}}},
		{id: "FS03", what: "create a file in the home directory: in none, or in one of the sandbox's own", tries: []try{
			{act: "create {home}/planted", flags: noHome, want: inNoHome}, {act: "create {home}/planted", want: "REACHED"}},
			after: absent("{home}/planted")},
		{id: "FS04", what: "create a file in /usr", tries: []try{{act: "touch /usr/nsrun-e2e-{canary}", want: "EROFS EACCES", user: system}},
			after: absent("/usr/nsrun-e2e-{canary}")},
		{id: "FS05", what: "create a file in /etc", tries: []try{{act: "touch /etc/nsrun-e2e-{canary}", want: "EROFS EACCES", user: system}},
			after: absent("/etc/nsrun-e2e-{canary}")},
		{id: "FS06", what: "read another program's file in /tmp", tries: []try{{act: "open r {tmpfile}", want: "ENOENT"}}},
		{id: "FS07", what: "see state of the host that is not for programs", tries: []try{{act: "stat /var/log", want: "ENOENT"}}},
		{id: "FS08", what: "leave the workspace by ..", tries: []try{
			{act: "open r {work}/../.ssh/id_canary", want: "ENOENT"},
			{act: "open r {work}/../../../../../../../../..{secret}", want: "ENOENT"}}},
		{id: "FS09", what: "read through a symlink that the command plants", tries: []try{{act: "symlink-read {secret} {work}/link", want: "ENOENT"}}},
		{id: "FS10", what: "create through a symlink that the command plants",
			tries: []try{{act: "symlink-create {home}/planted {work}/link", flags: noHome, want: inNoHome},
				{act: "symlink-create {home}/planted {work}/link2", want: "REACHED"}}, after: absent("{home}/planted")},
		{id: "FS11", what: "link a file of the host into the workspace", tries: []try{{act: "link {secret} {work}/linked", want: "ENOENT EXDEV EACCES"}},
			after: absent("{work}/linked")},
		{id: "FS12", what: "read a secret by /proc/self/root", tries: []try{{act: "open r /proc/self/root{secret}", want: "ENOENT"}}},
		{id: "FS13", what: "read a secret by pid 1's root", tries: []try{
			{act: "open r /proc/1/root{secret}", control: "open r /proc/{pid}/root{secret}", want: "EACCES ENOENT"}}},
		{id: "FS14", what: "read a secret by pid 1's working directory", tries: []try{
			{act: "open r /proc/1/cwd/..{secret}", control: "open r /proc/{pid}/cwd/..{secret}", want: "EACCES ENOENT"}}},
		{id: "FS15", what: "rename the directory above a read-only leaf, and write the leaf anew", flags: []string{"--ro", "{work}/conf"},
			tries: []try{{act: "move-parent {work}/conf/leaf changed", want: "EBUSY EACCES EROFS EXDEV"},
				{act: "move-parent {work}/dir/inner changed", flags: []string{"--ro", "{work}/dir/inner"}, want: "EBUSY EACCES EROFS EXDEV"}},
			after: func(t *testing.T, w *world) {
				holds("{work}/conf/leaf", "leaf\n")(t, w)
				holds("{work}/dir/inner", "inner\n")(t, w)
			}},
		{id: "FS17", what: "truncate a file of a read-only grant", flags: grant, tries: []try{
			{act: "truncate {grant}/file", want: "EROFS EACCES"}, {act: "open trunc {grant}/file", want: "EROFS EACCES"},
			{act: "ftruncate {grant}/file", want: "EROFS EACCES"}}, after: holds("{grant}/file", "granted\n")},
		{id: "FS18", what: "change the metadata of a read-only grant", flags: grant, tries: []try{
			{act: "chmod {grant}/file 0777", want: "EROFS EACCES"}, {act: "chown {grant}/file", want: "EROFS EACCES"},
			{act: "utimes {grant}/file", want: "EROFS EACCES"}, {act: "setxattr {grant}/file", want: "EROFS EACCES", lone: "not every file system has user.*"},
			{act: "chmod /dev/null 0666", want: "EROFS EACCES", user: refused}, {act: "chmod /proc/keys 0666", want: "EROFS EACCES EPERM", lone: noEqual}},
			after: sameMetadata},
		{id: "FS19", what: "write where something is hidden: it must not seem to succeed", tries: []try{
			{act: "create {home}/.ssh/planted", want: "ENOENT EROFS"}, {act: "create {home}/other/planted", want: "ENOENT EROFS"},
			{act: "touch /etc/ssl/private/planted", want: "EROFS EACCES ENOENT", root: true, lone: "the host may have no such directory"}},
			after: absent("{home}/.ssh/planted", "{home}/other/planted")},
		{id: "FS20", what: "leave a set-uid file behind", tries: []try{{act: "chmod {work}/dir/inner 4755", want: "EPERM"}}, after: noSetID},
		{id: "FS21", what: "make device nodes", tries: []try{
			{act: "mknod {work}/node char", want: "EPERM", user: refused}, {act: "mknod {work}/node block", want: "EPERM", user: refused},
			{act: "mknod /tmp/node char", want: "EPERM", user: refused}, {act: "mknod /dev/node block", want: "EPERM EROFS", user: refused}},
			after: absent("{work}/node")},
		{id: "FS22", what: "find a device beside the harmless ones", tries: []try{{act: "devices", want: "ENOENT", lone: "a container's /dev is minimal too"}}},
		{id: "FS26", what: "execute a file just written: with noexec and in /run refused, elsewhere allowed", tries: []try{
			{act: "exec-copy /tmp", flags: noExec, want: "EACCES", lone: "the host's /tmp may be noexec"}, {act: "exec-copy {work}", flags: noExec, want: "EACCES"},
			{act: "exec-copy {home}", flags: noExec, want: "EACCES"}, {act: "exec-copy /run", want: "EACCES", lone: "the host's /run may be noexec"},
			{act: "exec-copy /tmp", want: "REACHED"}, {act: "exec-copy {home}", want: "REACHED"}, {act: "exec-copy {work}", want: "REACHED"}}},
		{id: "FS27", what: "execute a file in memory: where nothing else that is writable can be executed it is refused", tries: []try{
			{act: "exec-memfd", flags: readOnly, want: "EACCES"}, {act: "exec-memfd", flags: noExec, want: "EACCES"}, {act: "exec-memfd", want: "REACHED"},
			{act: sys(unix.SYS_MEMFD_CREATE, bad, 8), flags: readOnly, want: "EFAULT EINVAL", lone: noEqual}}},
		{id: "FS28", what: "run a program that is not granted by the dynamic loader", plant: plantTool,
			tries: []try{{act: "loader {home}/tool", want: "ENOENT", lone: "the host may have no dynamic loader"}}},
		{id: "FS30", what: "create a file in the root", tries: []try{{act: "touch /probe-{canary}", want: "EROFS EACCES", user: system}}},
		{id: "FS31", what: "create a file in /dev", tries: []try{{act: "touch /dev/probe-{canary}", want: "EROFS EACCES", user: system}}},
		{id: "FS35", what: "read the machine's id", tries: []try{{act: "nonempty /etc/machine-id", want: "ENODATA ENOENT", lone: "the host may have none"}}},
		{id: "FS36", what: "change a read-only file's pages", flags: grant, tries: []try{{act: "mmapwrite {grant}/file", want: "EROFS EACCES"}},
			after: holds("{grant}/file", "granted\n")},
		{id: "FS37", what: "delay a host program that writes to a file of a read-only grant", flags: grant, tries: []try{
			{act: "lease {grant}/file", want: "EACCES", lone: "not every file system has leases"},
			{act: sys(unix.SYS_FCNTL, -1, unix.F_SETDELEG, bad), want: "EACCES"}}},
	}
}

// fileTests are those that take more than one act.
func fileTests() []attackCase {
	return []attackCase{
		{id: "FS29", what: "start in a directory that is not in the view", test: unseenDirectory},
		{id: "FS32", what: "find a writable mount that the plan has not, or one without nosuid and nodev", test: writableMounts},
		{id: "FS33", what: "follow a symlink on a mount that the host has as nosymfollow", test: noSymFollow},
		{id: "FS34", what: "read the host's accounts", test: accounts},
	}
}

func plantTool(t *testing.T, w *world) {
	t.Helper()
	echo, err := exec.LookPath("echo")
	require.NoError(t, err)
	data, err := os.ReadFile(echo)
	require.NoError(t, err)
	w.write(t, w.home+"/tool", string(data))
	require.NoError(t, os.Chmod(w.home+"/tool", 0o755))
}

func sameMetadata(t *testing.T, w *world) {
	t.Helper()
	info, err := os.Stat(w.grant + "/file")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	assert.NotZero(t, info.ModTime().Unix())
}

func noSetID(t *testing.T, w *world) {
	t.Helper()
	info, err := os.Stat(w.work + "/dir/inner")
	require.NoError(t, err)
	assert.Zero(t, info.Mode()&(os.ModeSetuid|os.ModeSetgid), "the file has no set-id bit on the host")
}

func unseenDirectory(t *testing.T, w *world) {
	e := w.do(t, func(c *exec.Cmd) { c.Dir = w.home }, built.nsrun, "run", "--ro", filepath.Dir(built.probe), "--", built.probe, "getcwd")
	assert.Equal(t, w.home+"\n", e.stdout, "the home directory is not shown, and the command starts in an empty one\n%v", e)
	e = w.do(t, func(c *exec.Cmd) { c.Dir = w.home }, built.nsrun, "run", "--", "ls", "-A")
	assert.Equal(t, ending{}, ending{code: e.code, stdout: e.stdout}, "%v", e)
	for _, dir := range []string{w.secret, filepath.Dir(w.secret), w.home + "/other"} {
		e = w.probe(t, []string{"--chdir", dir}, "getcwd")
		assert.Equal(t, 125, e.code, "%s is not in the view\n%v", dir, e)
		assert.Empty(t, e.stdout)
	}
}

// mountLine is what matters of a line of mountinfo.
type mountLine struct{ root, point, options, fstype string }

func mountLines(text string) (all []mountLine) {
	for line := range strings.Lines(text) {
		f := fields(line)
		for i, word := range f {
			if word == "-" {
				all = append(all, mountLine{f[3], f[4], "," + f[5] + ",", f[i+1]})
			}
		}
	}
	return all
}

func (m mountLine) has(option string) bool { return strings.Contains(m.options, ","+option+",") }

func writableMounts(t *testing.T, w *world) {
	e := w.in(t, []string{"--ro", w.grant}, "cat", "/proc/self/mountinfo")
	require.Equal(t, 0, e.code, e)
	planned := []string{w.work, "/tmp", "/var/tmp", "/dev/shm", "/run", w.home, "/dev/pts", "/proc"}
	var writable []string
	for _, m := range mountLines(e.stdout) {
		if m.fstype == "devtmpfs" {
			assert.True(t, m.has("ro") && m.has("nosuid") && m.has("noexec"), "%+v: a node works on such a mount, and so does a mask", m)
			continue
		}
		assert.True(t, m.has("nosuid"), "%+v is nosuid", m)
		// The directory of the nodes and devpts hold devices; what matters is that nothing can be made in them.
		assert.True(t, m.has("nodev") || m.point == "/dev" && m.has("ro") || m.fstype == "devpts", "%+v is nodev", m)
		if m.has("rw") {
			writable = append(writable, m.point)
		}
	}
	for _, point := range writable {
		assert.Contains(t, planned, point, "writable mounts are those of the plan")
	}
	assert.Contains(t, writable, w.work)
}

func noSymFollow(t *testing.T, w *world) {
	words := append([]string{built.probe, "namespace", "nosymfollow", w.grant}, w.nsrun([]string{"--ro", w.grant}, built.probe, "open", "r", w.grant+"/link")...)
	e := w.do(t, nil, words...)
	word, rest := verdict(e)
	need(t, word != "NA", "nosymfollow mounts in a namespace: "+rest)
	assert.True(t, try{want: "ELOOP"}.stopped(e), "the flag of the host's mount survives\n%v", e)
	words[len(words)-1] = w.grant + "/file"
	e = w.do(t, nil, words...)
	assert.True(t, try{want: "REACHED"}.stopped(e), "the file itself can be read\n%v", e)
}

func accounts(t *testing.T, w *world) {
	host, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	e := w.probe(t, nil, "cat /etc/passwd")
	assert.Equal(t, 2, strings.Count(e.stdout, "\n"), "two accounts\n%v", e)
	assert.NotEqual(t, string(host), e.stdout)
	for line := range strings.Lines(string(host)) {
		if name, _, _ := strings.Cut(line, ":"); name != "root" && name != "nobody" && name != "user" {
			assert.NotContains(t, e.stdout, name+":", "no account of the host")
		}
	}
}
