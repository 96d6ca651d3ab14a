package explain

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refusals are the errnos by which a sandbox refuses.
var refusals = strings.Fields("ENOENT ENOTDIR EROFS EPERM EACCES ENETUNREACH ENOSYS")

// probes are calls that programs try and do without: the level on does not report them.
var probes = strings.Fields("clone3 rseq set_mempolicy mbind get_mempolicy io_uring_setup pkey_alloc")

// fixture makes the world of a program: a copy of the one that was made first.
func (w *world) fixture(t *testing.T) {
	t.Helper()
	template := path.Dir(w.work) + "/template"
	dirs := []string{w.home, w.work, w.hidden, w.above, w.aside}
	if _, err := os.Stat(template); err != nil {
		w.makeFixture(t)
		require.NoError(t, os.Mkdir(template, 0o755))
		out, err := exec.Command("cp", append(append([]string{"-a"}, dirs...), template)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	out, err := exec.Command("rm", append([]string{"-rf"}, dirs...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("cp", "-a", template+"/.", path.Dir(w.work)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func (w *world) makeFixture(t *testing.T) {
	t.Helper()
	w.fresh(t)
	for _, dir := range []string{w.hidden, w.shared} {
		for _, sub := range []string{"/sub", "/empty"} {
			require.NoError(t, os.Mkdir(dir+sub, 0o755))
			w.own(t, dir+sub)
		}
		w.write(t, dir+"/file", "text\n", 0o644)
		w.write(t, dir+"/sub/file", "text\n", 0o644)
		w.write(t, dir+"/readonly", "text\n", 0o444)
		w.write(t, dir+"/script", "#!/bin/sh\necho ran\n", 0o755)
		w.write(t, dir+"/tool", "#!/bin/sh\necho ran\n", 0o755)
		w.write(t, dir+"/h.h", "int h;\n", 0o644)
		w.write(t, dir+"/Makefile", "out: file\n\tcp file out\n", 0o644)
		require.NoError(t, os.Symlink(w.hidden+"/file", dir+"/link"))
		require.NoError(t, unix.Mkfifo(dir+"/fifo", 0o600))
		w.own(t, dir+"/fifo")
		for name, mode := range map[string]os.FileMode{"/locked": 0o600, "/public": 0o666} { // another user's
			require.NoError(t, os.WriteFile(dir+name, []byte("text\n"), mode))
			require.NoError(t, os.Chmod(dir+name, mode))
			if os.Getuid() == 0 && w.uid == 0 {
				require.NoError(t, os.Chown(dir+name, 1, 1))
			}
		}
		cmd := w.command("sh", "-c", "git init -q repo && cd repo && echo x > f && git add f && git -c user.name=x -c user.email=x commit -qm x && touch -d @1 f", dir)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	out, err := w.command("sqlite3", w.shared+"/db", "create table t(a)").CombinedOutput()
	require.NoError(t, err, "%s", out)
	w.write(t, w.work+"/a", "a\n", 0o644)
	w.write(t, w.work+"/main.c", "#include \"h.h\"\nint main(void) { return h; }\n", 0o644)
	w.write(t, w.home+"/.gitconfig", "[user]\n\tname = x\n\temail = x@example.com\n", 0o644)
	require.NoError(t, os.Mkdir(w.home+"/.ssh", 0o700))
	w.own(t, w.home+"/.ssh")
	out, err = exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", w.home+"/.ssh/id").CombinedOutput()
	require.NoError(t, err, "%s", out)
	w.own(t, w.home+"/.ssh/id")
}

// TestCorpus runs each program four times: unsandboxed and sandboxed under strace, and with --explain and --explain=all. What is reported is what fails
// inside and succeeds outside, and nothing else.
func TestCorpus(t *testing.T) {
	for _, name := range strings.Fields("strace git sqlite3 ssh-keygen") {
		installed(t, name)
	}
	for _, w := range worlds(t) {
		w.hidden = path.Dir(w.hidden) + "/hidden" // a name that shells, awk and perl take as it is
		for i, p := range corpus {
			if w.uid == 0 && i%3 != 0 && !testenv.All() {
				continue // the ordinary user's run has all of them
			}
			if _, err := user.LookupId(strconv.Itoa(w.uid)); err != nil && p.name == "ssh-keygen" {
				continue // it wants a user with a name
			}
			for n, backend := range []string{"native", "landlock"} {
				if n > 0 && i%3 != 1 && !testenv.All() {
					continue
				}
				t.Run(w.name+"/"+backend+"/"+p.name, func(t *testing.T) { p.compare(t, w, backend) })
			}
		}
	}
}

// installed skips a test whose program is not there; in CI that is a failure.
func installed(t *testing.T, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	need(t, err == nil, program)
}

// words are those of the command, with what stands for a path replaced.
func (p program) words(t *testing.T, w *world) (argv []string, fill func(string) string) {
	t.Helper()
	address := "192.0.2.1"
	if strings.Contains(p.run, "{address}") {
		address = hostAddress(t)
	}
	fill = strings.NewReplacer("{hidden}", w.hidden, "{shared}", w.shared, "{home}", w.home, "{address}", address).Replace
	if script, ok := strings.CutPrefix(p.run, "sh: "); ok {
		return []string{"sh", "-c", fill(script)}, fill
	}
	for _, word := range strings.Split(p.run, " ") {
		argv = append(argv, strings.ReplaceAll(fill(word), "\u00a0", " "))
	}
	return argv, fill
}

func (p program) compare(t *testing.T, w *world, backend string) {
	argv, fill := p.words(t, w)
	for _, name := range append(strings.Fields(p.needs), argv[0]) {
		installed(t, name)
	}
	prepare := func() {
		w.fixture(t)
		l := w.listen(t)
		t.Cleanup(func() { l.Close() })
	}
	prepare()
	inside, out := w.trace(t, w.command, argv, append([]string{built.nsrun, "run", "--backend", backend, "--workspace", ".", "--ro", built.bin, "--ro", w.above, "--"}, argv...)...)
	reports := map[string]outcome{}
	for _, level := range []string{"on", "all"} {
		prepare()
		reports[level] = w.explained(t, "--backend "+backend+" --explain="+level, argv...)
	}
	prepare()
	outside, _ := w.trace(t, w.bare, argv, argv...)
	tried := w.attempts(t, inside, outside, prepare)
	for level, r := range reports {
		require.NotNil(t, r.Receipt.Explain, r.out)
		assert.Zero(t, r.Receipt.Explain.NotLookedAt)
		wrong, missed := unfounded(w, r.Denials, tried), unreported(w, level, r.Denials, tried)
		t.Logf("corpus: %s as %s, %s, %s: %d denials, %d false, %d missed", p.name, w.name, backend, level, len(r.Denials), len(wrong), len(missed))
		assert.Empty(t, wrong, "false at the level %s; inside: %s", level, out)
		assert.Empty(t, missed, "missed at the level %s: %+v", level, r.Denials)
	}
	must := func(level, what string) {
		if what = fill(what); what != "" {
			assert.True(t, slices.ContainsFunc(reports[level].Denials, func(d result.Denial) bool {
				return strings.HasSuffix(d.Path, what) || d.Kind == what || d.Op == what
			}), "%s is reported at the level %s: %+v", what, level, reports[level].Denials)
		}
	}
	if backend == "landlock" { // which lets look, and change modes and times, and refuses sockets as a whole
		return
	}
	must("on", p.denied)
	must("all", p.denied)
	must("all", p.looked)
}

// own reports whether a path is one of the sandbox's own file systems, which nothing is reported of.
func own(name string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
}

// attempt is a call that failed inside. It was refused if it succeeds outside.
type attempt struct {
	traced
	refused bool
	again   bool // it was made once more
}

// attempts decides of each call that failed inside whether it succeeds outside: there the command has made it, too, as often as inside, or else, as it
// goes another way where calls succeed, it is made once more.
func (w *world) attempts(t *testing.T, inside, outside []traced, prepare func()) (all []attempt) {
	t.Helper()
	made := map[string][]string{} // the outcomes of a call
	for _, c := range outside {
		made[c.key()] = append(made[c.key()], c.errno)
	}
	count, again := map[string]int{}, []string{}
	for _, c := range inside {
		key := c.key()
		n := count[key]
		count[key]++
		switch {
		case c.errno == "":
			continue
		case n < len(made[key]):
			all = append(all, attempt{traced: c, refused: made[key][n] == "" || made[key][n] == "EINPROGRESS"})
		case c.name == "socket", pathArgs[c.name] != nil && len(c.paths) > 0 && !own(c.paths[0]):
			all = append(all, attempt{traced: c, again: true})
			if !slices.Contains(again, key) {
				again = append(again, key)
			}
		}
	}
	if len(again) == 0 {
		return all
	}
	prepare()
	out, err := w.bare(append([]string{built.hostile, "replay"}, again...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	outcomes := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, outcomes, len(again), "%s", out)
	for i, a := range all {
		if n := slices.Index(again, a.key()); a.again {
			all[i].refused = outcomes[n] == "OK"
			assert.NotContains(t, outcomes[n], "cannot replay")
		}
	}
	return all
}

// bare is a command with the rights that the user has without capabilities, as it has in a sandbox.
func (w *world) bare(argv ...string) *exec.Cmd {
	if w.uid == 0 {
		argv = append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"}, argv...)
	}
	return w.command(argv...)
}

// watched reports whether a level reports a call that was refused.
func watched(level string, c traced) bool {
	switch {
	case !slices.Contains(refusals, c.errno), level == "on" && (slices.Contains(looking, c.name) || slices.Contains(probes, c.name)):
		return false
	case pathArgs[c.name] == nil && c.name != "connect" && c.name != "bind": // what the filter refuses
		return len(c.paths) == 0 && (c.name == "socket" || c.errno == "EPERM" || c.errno == "ENOSYS")
	}
	return len(c.paths) > 0 && !own(c.paths[0])
}

// reports reports whether a denial is of a call.
func reports(w *world, d result.Denial, c traced) bool {
	if d.Op != c.name {
		return false
	}
	switch d.Kind {
	case "syscall", "socket":
		return true
	case "secret":
		return len(c.paths) > 0 && (strings.HasPrefix(c.paths[0], w.home+"/.ssh") || c.paths[0] == "/etc/shadow")
	}
	name := random.ReplaceAllString(d.Path, "${1}XXXXXX")
	return slices.Contains(c.paths, path.Clean(name)) || slices.Contains(c.paths, name)
}

// unreported lists the refused calls that no denial is of.
func unreported(w *world, level string, denials []result.Denial, tried []attempt) (missed []string) {
	for _, c := range tried {
		if c.refused && watched(level, c.traced) && !slices.ContainsFunc(denials, func(d result.Denial) bool { return reports(w, d, c.traced) }) {
			missed = append(missed, fmt.Sprint(c))
		}
	}
	return missed
}

// unfounded lists the denials that are of no refused call.
func unfounded(w *world, denials []result.Denial, tried []attempt) (wrong []string) {
	for _, d := range denials {
		if d.Kind == "setuid" { // the call succeeds
			info, err := os.Stat(d.Path)
			if err != nil || info.Mode()&os.ModeSetuid == 0 {
				wrong = append(wrong, fmt.Sprintf("%+v", d))
			}
			continue
		}
		probe := d.Kind == "syscall" && slices.Contains(probes, d.Op) // which this host's kernel or processor may lack, too
		if !slices.ContainsFunc(tried, func(c attempt) bool { return (c.refused || probe) && reports(w, d, c.traced) }) {
			failed := slices.ContainsFunc(tried, func(c attempt) bool { return reports(w, d, c.traced) })
			wrong = append(wrong, fmt.Sprintf("%+v: fails inside: %v", d, failed))
		}
	}
	return wrong
}
