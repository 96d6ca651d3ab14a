package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

// replaced is what root does to its /etc while a sandbox runs: files that were covered are replaced by rename, as passwd(1) does it, and one directory
// that has something covered in it. The mount namespace of this script has a copy of /etc. $1 is the test's directory, the rest a call of nsrun.
const replaced = `set -eu
dir=$1; shift
mkdir "$dir/etc" && cp -a /etc/. "$dir/etc"
mount --bind "$dir/etc" /etc
key() { printf secret >"$1.new"; chmod 600 "$1.new"; mv "$1.new" "$1"; }
mkdir -p /etc/ssl/private; key /etc/shadow; key /etc/ssl/private/key
"$@" &
run=$!
until [ -e "$dir/work/ready" ]; do kill -0 $run; sleep 0.02; done
key /etc/shadow; key /etc/shadow+; key /etc/passwd
mv /etc/ssl /etc/ssl.old; mkdir -p /etc/ssl/private; key /etc/ssl/private/key
touch "$dir/work/go"
wait $run`

// reader is a command that says which of them it can read then.
const reader = `touch ready; until [ -e go ]; do sleep 0.02; done
for f in shadow shadow+ passwd ssl/private/key ssl.old/private/key os-release; do grep -qs . /etc/$f && echo $f; done; true`

// TestACoverThatTheHostTakesAway: the kernel takes away the mount over a file that the host replaces.
func TestACoverThatTheHostTakesAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can read these files, and replace them")
	}
	for _, test := range []struct {
		name   string
		flags  []string
		reads  string
		reason string
	}{
		{"native", nil, "os-release", "what is covered stays closed"},
		{"landlock", []string{"--backend", "landlock"}, "os-release", "what is covered stays closed"},
		{"without Landlock", []string{"--no-landlock"}, "shadow shadow+ passwd ssl/private/key os-release", "positive control: the mounts alone do not do it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
			args := append([]string{"-c", replaced, "sh", dir, built.nsrun, "run", "--quiet", "--timeout", "60s", "--workspace", filepath.Join(dir, "work")}, test.flags...)
			cmd := exec.Command("sh", append(args, "--", "sh", "-c", reader)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			testenv.Returns(t, "the run", func() { require.NoError(t, cmd.Run(), "%s", &errs) })
			assert.Equal(t, test.reads, strings.Join(strings.Fields(out.String()), " "), test.reason)
		})
	}
}
