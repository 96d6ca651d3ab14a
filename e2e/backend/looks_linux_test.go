package backend_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// bad are the errors that a look at the host can come to although something is there.
var bad = []unix.Errno{unix.EIO, unix.ENOMEM, unix.EACCES, unix.EMFILE, unix.ELOOP, unix.EAGAIN} // EAGAIN last

// begins is looked at first by the command in these tests.
const begins = "/the-command-begins"

// sights is a command that prints what a sandbox shows and lets it do, without the numbers that differ from one to the next, and without the
// default limits on processes and memory: where a cgroup cannot be looked at they are held by rlimits instead, which the receipt tells. It starts three
// processes, and reads little, since each read(2) is asked about: there are thousands of runs.
const sights = `
	command=$1; secret=$2; [ -e ` + begins + ` ]
	sed -nE -e 's/^[0-9]+ [0-9]+ [0-9]+:[0-9]+ /mount /p' -e '/^(Cap|Seccomp|NoNewPrivs|Uid|Gid|Groups)/p' -e '/^Max (processes|data)/!{/^Max/p}' \
		/proc/self/mountinfo /proc/self/status /proc/self/limits
	for f in /etc/*shadow* /etc/passwd /etc/ssl/private/* /etc/ssh/* /etc/security/opasswd /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/kallsyms \
		/proc/kcore /proc/kmsg /proc/keys /proc/timer_list /dev/null /dev/full "$secret" "$command"; do
		[ -e "$f" ] || continue
		{ true <"$f"; } 2>/dev/null && echo "reads $f"
		{ true >>"$f"; } 2>/dev/null && echo "writes $f"
	done
	pwd; umask; env
	ls -an --time-style=+ / /dev /usr /etc/ssl "${secret%/*}" 2>&1 || true`

// TestAFailedLookWeakensNothing makes each look fail that nsrun takes at the host, and each call by which it talks to the sandbox or waits for
// it, by each backend. Either the run is refused, or the command finds the same sandbox. Once the command has begun the run may also end as one
// whose end is not known, which is no refusal.
func TestAFailedLookWeakensNothing(t *testing.T) {
	each(t, false, func(t *testing.T, b box) {
		if emulated() && b.backend != "native" {
			return
		}
		b.failEach(t, 125, b.words(b.shown(), b.sights()...))
	})
}

// TestAFailedLookWeakensNothingOfBwrap does the same for nsrun as bwrap.
func TestAFailedLookWeakensNothingOfBwrap(t *testing.T) {
	if emulated() {
		return
	}
	users(t, func(t *testing.T, w *world) {
		b := box{world: w, backend: "bwrap"}
		argv := []string{built.nsrun, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", w.work, w.work,
			"--ro-bind-try", w.grant, w.grant, "--bind-try", "/nowhere", "/nowhere", "--tmpfs", w.home + "/other", "--chdir", w.work}
		b.failEach(t, 1, append(argv, b.sights()...))
	})
}

// emulated reports whether this is a virtual machine of the tests, where a run takes seconds: what fails there once of each kind, by backend
// native, has the kernel's part in it.
func emulated() bool { return os.Getenv("NSRUN_TEST_VM") != "" }

// sights is the command of these tests.
func (b box) sights() []string { return []string{"sh", "-c", sights, "sh", built.nsrun, b.secret} }

// failEach makes the looks of one run fail, which it ends with refused for.
func (b box) failEach(t *testing.T, refused int, argv []string) {
	t.Helper()
	good, points := b.look(t, argv, "-", 0)
	require.Zero(t, good.code, good)
	for _, sight := range []string{"\nmount ", "\nNoNewPrivs:", "\nMax open files ", "\nreads /etc/passwd\n", "\nPATH=", "\n/usr:\n"} {
		require.Contains(t, "\n"+good.stdout, sight, "control")
	}
	again, _ := b.look(t, argv, "-", 0)
	require.Empty(t, difference(good.stdout, again.stdout), "nothing differs between two runs")
	n, entries, seen := 0, map[string]int{}, map[string]bool{}
	for _, i := range testenv.Sample(t, len(points), func(i int) string { call, _, _ := strings.Cut(points[i], "/"); return call }) {
		call, _, _ := strings.Cut(points[i], "/")
		if emulated() && seen[call] {
			continue
		}
		seen[call] = true
		errnos := b.errors(i, points[i])
		if entryOfEtc.MatchString(points[i]) {
			entries[call]++
			if entries[call] > mostEntries {
				errnos = errnos[i%len(errnos):][:1]
			}
		}
		for _, errno := range errnos {
			n++
			e, _ := b.look(t, argv, points[i], errno)
			checkLook(t, fmt.Sprintf("%s: %s", points[i], unix.ErrnoName(errno)), refused, good, e, errno)
		}
	}
	testenv.Count(t, "failed looks", n)
}

// entryOfEtc is a look by which root's rules take an entry of /etc, or of a directory there of which they leave something out. Each entry has the same looks:
// of each call so many fail in every way, and the rest in one.
var entryOfEtc = regexp.MustCompile(`^(openat|fstat|newfstatat|fstatat) /etc/((security|ssl)/)?[^/]+ [0-9]+$`)

const mostEntries = 8

// errors are those that a look comes to in this tier: all where the sandbox is decided about, but in a container, which takes too long for that.
func (b box) errors(i int, look string) []unix.Errno {
	list := bad
	if strings.Contains(look, "read /") { // EAGAIN would say that nothing has come yet; files of the kernel never do
		list = bad[:len(bad)-1]
	}
	if testenv.All() && b.backend != "docker" && !strings.HasPrefix(look, "late ") {
		return list
	}
	return list[i%len(list):][:1]
}

// look runs a program, while one look at the host fails, and gives all looks.
func (b box) look(t *testing.T, argv []string, point string, errno unix.Errno) (ending, []string) {
	t.Helper()
	log := filepath.Join(b.world.run, "looks")
	e := b.do(t, b.change(nil), append([]string{built.unlucky, log, begins, point, strconv.Itoa(int(errno))}, argv...)...)
	data, err := os.ReadFile(log)
	require.NoError(t, err, e)
	require.NoError(t, os.Remove(log))
	e.stdout = columns.ReplaceAllString(sizes.ReplaceAllString(numbers.ReplaceAllString(e.stdout, "#"), "$1 $2 #"), " ")
	return e, strings.Split(strings.TrimSpace(string(data)), "\n")
}

var (
	numbers = regexp.MustCompile(`[0-9a-f]{12,}|nsrun-[0-9a-z]+|bindfile[0-9A-Za-z]+`)     // names that a backend makes up for each sandbox
	sizes   = regexp.MustCompile(`(?m)^(d[-a-zA-Z]{9}) +[0-9]+ +([0-9]+ +[0-9]+) +[0-9]+`) // of directories; /proc has a link for each process
	columns = regexp.MustCompile(` {2,}`)                                                  // which ls makes as wide as the longest of those
)

// checkLook says what is wrong with the ending of a run whose look failed.
func checkLook(t *testing.T, what string, refused int, good, e ending, errno unix.Errno) {
	t.Helper()
	const lost = 255
	same := difference(good.stdout, e.stdout) == ""                           // a container has its mounts in an order that changes from run to run
	late := strings.HasPrefix(what, "late ") || strings.Contains(what, " / ") // a call that waits may come after the command was let go
	switch {
	case e.code == 0 && (same || errno == unix.EACCES && lessHardware(what, difference(good.stdout, e.stdout))):
	case late && e.code == 1 && strings.Contains(e.stderr, "and the rest is lost: ppoll: "+errno.Error()): // of the output of a command that has ended
	case late && e.code == lost && strings.Contains(e.stderr, "how the command ended is not known"):
	case late && refused == 1 && e.code == refused && strings.Contains(e.stderr, "bwrap: wait: "): // bubblewrap's words for that
	case e.code == 0:
		t.Errorf("%s: the sandbox is another\n%s\n%s", what, difference(good.stdout, e.stdout), e.stderr)
	case e.code != refused || e.stdout != "":
		t.Errorf("%s: neither refused nor the same\n%v", what, e)
	case !strings.Contains(strings.ToLower(e.stderr), errno.Error()):
		t.Errorf("%s: the refusal does not name the cause: %s", what, e.stderr)
	case strings.Count(e.stderr, ":") < 2 && !strings.Contains(e.stderr, "/"):
		t.Errorf("%s: the refusal does not name the object: %s", what, e.stderr)
	}
}

// lessHardware reports whether the look was one at the host's sysfs, and the sandbox shows nothing of it: systems that hide their hardware close it to all
// but root, and that is less, not more.
func lessHardware(what, difference string) bool {
	if !strings.Contains(what, " /sys/devices/system") {
		return false
	}
	for line := range strings.Lines(difference) {
		if !strings.HasPrefix(line, "- ") || !strings.Contains(line, "sys") {
			return false
		}
	}
	return true
}

// difference lists the lines that only one of two texts has.
func difference(a, b string) string {
	var out []string
	for sign, texts := range map[string][2]string{"-": {a, b}, "+": {b, a}} {
		for line := range strings.Lines(texts[0]) {
			if !strings.Contains("\n"+texts[1], "\n"+line) {
				out = append(out, sign+" "+strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(out, "\n")
}
