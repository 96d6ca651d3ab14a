package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/nsrun/nsrun/seccomp"
)

// oddEtc makes an /etc with all kinds of entries in a mount namespace of its own, and more of them than a buffer holds. $1 is a directory that keeps it,
// the rest a command.
const oddEtc = `set -eu
dir=$1; shift
new=; [ -e "$dir/etc" ] || { new=1; mkdir "$dir/etc"; cp -a /etc/. "$dir/etc"; mkdir "$dir/etc/mounted"; }
mount --bind "$dir/etc" /etc; mount -t tmpfs none /etc/mounted; echo x >/etc/mounted/f; cd /etc
[ "$new" ] || { cd /usr; exec "$@"; }
mkdir -p many ssl/private ssl/own closed/dir; chmod 711 closed; chmod 755 closed/dir
for i in $(seq 700); do echo $i >many.$i.of.these; done
long=$(printf %0250d 1)
for f in "$long" 'a b' '
' .hidden ..two ssl/own/f ssl/private/key closed/dir/f group-only root-only; do echo x >"$f"; done
chmod 640 group-only; chmod 600 root-only; ln -s root-only link; ln "$long" hard; mkfifo fifo; mknod null c 1 3
cd /usr
exec "$@"`

// readable lists what a command can read in /etc.
const readable = `grep -rls '' /etc; find /etc -type d; true`

// TestRulesAddedLater compares what a command can read in root's /etc, and the receipt, where nsrun adds the rules while the sandbox is made and where
// the program has them all.
func TestRulesAddedLater(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's /etc is granted by entry")
	}
	dir := t.TempDir()
	whole, rules := readsEtc(t, dir, realBinary(t), "--verify")
	require.NotNil(t, rules)
	require.Greater(t, rules.Rules, 700)
	for file, reads := range map[string]bool{"many.700.of.these": true, "a b": true, ".hidden": true, "..two": true, "ssl/own/f": true, "mounted/f": true, "passwd": true,
		"hard": true, "group-only": false, "root-only": false, "link": false, "ssl/private/key": false, "shadow": false, "closed/dir/f": false} {
		assert.Equal(t, reads, slices.Contains(whole, "/etc/"+file), file)
	}
	for _, nsrun := range []string{realBinary(t), busyBinary(t)} {
		for _, flags := range [][]string{nil, {"--explain"}} {
			reads, later := readsEtc(t, dir, nsrun, flags...)
			assert.Empty(t, without(whole, reads), "not readable")
			assert.Empty(t, without(reads, whole), "readable alone where the rules are added later")
			assert.Equal(t, rules, later)
		}
	}
}

// without returns the lines that others lacks.
func without(lines, others []string) (left []string) {
	for _, line := range lines {
		if _, found := slices.BinarySearch(others, line); !found {
			left = append(left, line)
		}
	}
	return left
}

// readsEtc returns what a run reads of such an /etc, and what its receipt says of Landlock, with a hash of all rules.
func readsEtc(t *testing.T, dir, nsrun string, flags ...string) (reads []string, rules *result.LandlockReceipt) {
	t.Helper()
	file := filepath.Join(dir, "result.json")
	args := append([]string{"-c", oddEtc, "sh", dir, nsrun, "run", "--quiet", "--result", file}, flags...)
	cmd := exec.Command("sh", append(args, "--", "sh", "-c", readable)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &errs)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r result.Result
	require.NoError(t, json.Unmarshal(text, &r))
	reads = strings.Split(string(out), "\n")
	slices.Sort(reads)
	return reads, r.Receipt.Landlock
}

// TestARuleThatCannotBeAddedLater: the command does not run, the message names the rule, and nothing is left.
func TestARuleThatCannotBeAddedLater(t *testing.T) {
	if nsrun := os.Getenv("NSRUN_TEST_NO_RULES"); nsrun != "" {
		action, err := strconv.Atoi(os.Getenv("NSRUN_TEST_ACTION"))
		require.NoError(t, err)
		require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		require.NoError(t, seccomp.Apply(seccomp.Filter{{Code: loadWord}, {Code: jumpEqual, Jf: 1, K: unix.SYS_LANDLOCK_ADD_RULE},
			{Code: returnK, K: uint32(action)}, {Code: returnK, K: unix.SECCOMP_RET_ALLOW}}))
		stdout, stderr, code := calledIn("/nowhere", nsrun, "nsrun", "run", "--", "/bin/echo", "ran")
		assert.NotZero(t, code)
		assert.Empty(t, stdout)
		if action != unix.SECCOMP_RET_KILL_PROCESS {
			assert.Contains(t, stderr, "landlock (rule /etc): input/output error")
		}
		for err = error(nil); err == nil; { // the processes of the sandbox are children of this one now
			_, err = unix.Wait4(-1, nil, 0, nil)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root's /etc is granted by entry")
	}
	for _, nsrun := range []string{realBinary(t), busyBinary(t)} {
		for _, action := range []int{unix.SECCOMP_RET_ERRNO | int(unix.EIO), unix.SECCOMP_RET_KILL_PROCESS} {
			cmd := exec.Command("/proc/self/exe", "-test.run", "^TestARuleThatCannotBeAddedLater$", "-test.v")
			cmd.Env = append(os.Environ(), "NSRUN_TEST_NO_RULES="+nsrun, fmt.Sprint("NSRUN_TEST_ACTION=", action))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS")
		}
	}
}
