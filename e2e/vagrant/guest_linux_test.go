package vagrant

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const guest = "../../scripts/guest.sh"

// shells are those that it has to be read by: Debian's, and Alpine's.
var shells = []string{"sh", "dash", "busybox sh"}

// in runs a script in a shell with variables of its own, and skips where there is no such shell; in CI it must be there.
func in(t *testing.T, shell string, env []string, script string, args ...string) (string, int) {
	t.Helper()
	words := append(strings.Fields(shell), script)
	if _, err := exec.LookPath(words[0]); err != nil {
		require.Empty(t, os.Getenv("CI"), "%s is not installed", words[0])
		t.Skipf("%s is not installed", words[0])
	}
	cmd := exec.Command(words[0], append(words[1:], args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestGuestIsRead(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			out, code := in(t, shell+" -n", nil, guest)
			assert.Zero(t, code, out)
		})
	}
}

func TestGuestUsage(t *testing.T) {
	for _, args := range []string{"", "help", "setup now", "setup --dry", "setup --dry-run --os-release", "setup --os-release /etc/os-release", "go", "go a b", "test a b"} {
		t.Run(args, func(t *testing.T) {
			out, code := in(t, "sh", nil, guest, strings.Fields(args)...)
			assert.Equal(t, 2, code, "the exit status of a mistake in the command line")
			assert.Equal(t, "usage: guest.sh setup [--dry-run [--os-release FILE]] | go DIR | test [USER]\n", out)
		})
	}
}

// TestGuestSetup compares what it would do on each distribution with the golden.
func TestGuestSetup(t *testing.T) {
	const path = "testdata/setup.txtar"
	got := &txtar.Archive{Comment: []byte("What scripts/guest.sh setup does. go test ./e2e/vagrant -update writes this file anew; review it like code.\n\n")}
	for _, d := range distributions(t) {
		got.Files = append(got.Files, txtar.File{Name: d.Name, Data: []byte(neutral(t, plan(t, string(d.Data))))})
	}
	if *update {
		require.NoError(t, os.WriteFile(path, txtar.Format(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(txtar.Format(got)), "-update writes it anew")
}

// plan is what setup prints for a distribution.
func plan(t *testing.T, release string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "os-release")
	write(t, file, release, 0o644)
	out, code := in(t, "sh", nil, guest, "setup", "--dry-run", "--os-release", file)
	require.Zero(t, code, out)
	return out
}

// neutral leaves Go's version and the architecture open.
func neutral(t *testing.T, text string) string {
	t.Helper()
	text = strings.ReplaceAll(text, version(t), "VERSION")
	return regexp.MustCompile(`linux-(amd64|arm64)`).ReplaceAllString(text, "linux-ARCH")
}

// version is that of Go in go.mod.
func version(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(data)
	require.NotNil(t, found)
	return string(found[1])
}

// TestGuestPackages compares scripts/guest.sh with what scripts/test.sh installs.
func TestGuestPackages(t *testing.T) {
	cmd := exec.Command("go", "run", "./scripts/runtests", "--packages")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	list := strings.Fields(string(out))
	require.NotEmpty(t, list)
	assert.Subset(t, strings.Fields(plan(t, "ID=debian\n")), list, "scripts/guest.sh installs every package that scripts/test.sh needs")
}

func TestGuestDistribution(t *testing.T) {
	assert.Contains(t, plan(t, "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), " install -y -qq --no-install-recommends ca-certificates ", "a relative of Debian is treated like it")
	file := filepath.Join(t.TempDir(), "os-release")
	out, code := in(t, "sh", nil, guest, "setup", "--dry-run", "--os-release", file)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "give another one with --os-release")
	write(t, file, "ID=plan9\n", 0o644)
	out, code = in(t, "sh", nil, guest, "setup", "--dry-run", "--os-release", file)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no distribution known here: install git")
	assert.NotContains(t, out, "apt-get")
}

// curl stands for the real one: it gives what lies in $SERVED.
const curl = `#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" != -o ] || out=$2; shift; done
case $1 in
https://go.dev/dl/*include=all) from=list ;;
https://go.dev/dl/*) from=${1##*/} ;;
esac
echo "$1" >>"$SERVED/asked"
cp "$SERVED/$from" "$out"
`

// TestGuestFetchesGo puts an archive, made here, at a directory: if its checksum is the published one, and not otherwise.
func TestGuestFetchesGo(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			served, dir := t.TempDir(), filepath.Join(t.TempDir(), "opt")
			file, sum := serve(t, served)
			other := fmt.Sprintf("%064d", 0)
			env := []string{"SERVED=" + served, "PATH=" + filepath.Join(served, "bin") + ":" + os.Getenv("PATH")}
			list := func(sum string) {
				write(t, filepath.Join(served, "list"), fmt.Sprintf(`[{"version": "go1", "files": [{"filename": "%s.asc", "sha256": %q},
					{"filename": %q, "os": "linux", "sha256": %q, "size": 1},
					{"filename": "last.tar.gz", "sha256": %q}]}]`, file, other, file, sum, other), 0o644)
			}
			asked := filepath.Join(served, "asked")

			list(other)
			out, code := in(t, shell, env, guest, "go", dir)
			assert.Equal(t, 1, code, out)
			assert.Contains(t, out, "does not have the SHA-256 "+other)
			assert.Empty(t, names(t, dir), "nothing of what is not trusted stays")

			list("")
			out, code = in(t, shell, env, guest, "go", dir)
			assert.Equal(t, 1, code, out)
			assert.Contains(t, out, "is the version in go.mod one that was released?")

			list(sum)
			write(t, filepath.Join(dir, "go", "bin", "go"), "#!/bin/sh\necho go1.1\n", 0o755) // too old
			out, code = in(t, shell, env, guest, "go", dir)
			require.Zero(t, code, out)
			assert.Equal(t, []string{"go"}, names(t, dir), "the directory has Go and no more")
			made, err := exec.Command(filepath.Join(dir, "go", "bin", "go")).Output()
			require.NoError(t, err)
			assert.Equal(t, "go"+version(t)+"\n", string(made), "the older one is gone")

			require.NoError(t, os.Remove(asked))
			out, code = in(t, shell, env, guest, "go", dir)
			require.Zero(t, code, out)
			assert.NoFileExists(t, asked, "what is there is not fetched again")
		})
	}
}

// serve makes an archive with a Go that tells its version, and the curl that fetches it.
func serve(t *testing.T, dir string) (file, sum string) {
	t.Helper()
	write(t, filepath.Join(dir, "bin", "curl"), curl, 0o755)
	write(t, filepath.Join(dir, "go", "bin", "go"), "#!/bin/sh\necho go"+version(t)+"\n", 0o755)
	file = regexp.MustCompile(`go\S+\.linux-\w+\.tar\.gz`).FindString(plan(t, "ID=debian\n"))
	require.NotEmpty(t, file)
	out, err := exec.Command("tar", "-C", dir, "-czf", filepath.Join(dir, file), "go").CombinedOutput()
	require.NoError(t, err, string(out))
	data, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	return file, fmt.Sprintf("%x", sha256.Sum256(data))
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestGuestTests has it run a suite that tells who runs it, with which files. Root's run is followed by another user's.
func TestGuestTests(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("scripts/test.sh is for Debian and Ubuntu")
	}
	repo := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(repo), 0o755)) // for the other user
	text, err := os.ReadFile(guest)
	require.NoError(t, err)
	write(t, filepath.Join(repo, "scripts", "guest.sh"), string(text), 0o755)
	write(t, filepath.Join(repo, "go.mod"), "module example\n\ngo 1.26.0\n", 0o644)
	write(t, filepath.Join(repo, ".gitignore"), "ignored\n", 0o644)
	write(t, filepath.Join(repo, ".git"), "gitdir: /nonexistent\n", 0o644) // as in a work tree
	write(t, filepath.Join(repo, "ignored"), "", 0o644)
	suite := "#!/bin/sh\necho suite: $(stat -c %U go.mod) $(git ls-files) $@\n"
	write(t, filepath.Join(repo, "scripts", "test.sh"), suite, 0o755)
	const files = ".gitignore go.mod scripts/guest.sh scripts/test.sh"
	script, me := filepath.Join(repo, "scripts", "guest.sh"), os.Getuid()

	before := copies(t)

	if me != 0 {
		out, code := in(t, "sh", nil, script, "test")
		require.Zero(t, code, out)
		assert.Regexp(t, `(?m)^suite: \S+ `+regexp.QuoteMeta(files)+`$`, out)
		return
	}
	out, code := in(t, "sh", []string{"SUDO_USER=nobody"}, script, "test")
	require.Zero(t, code, out)
	assert.Contains(t, out, "suite: root "+files+"\n")
	assert.Contains(t, out, "suite: nobody "+files+"\n")

	write(t, filepath.Join(repo, "scripts", "test.sh"), "#!/bin/sh\nexit 3\n", 0o755)
	out, code = in(t, "sh", nil, script, "test", "nobody")
	assert.Equal(t, 1, code, "tests that fail")
	assert.Contains(t, out, "tests failed as: root nobody\n", "the other user's are run all the same")

	for user, why := range map[string]string{"root": "an ordinary user is needed", "nobody-at-all": "no user nobody-at-all"} {
		out, code = in(t, "sh", nil, script, "test", user)
		assert.Equal(t, 1, code)
		assert.Contains(t, out, why)
	}
	assert.Equal(t, before, copies(t), "copies stay behind")
}

// copies are those that there are; this test may run in one itself.
func copies(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/var/tmp/nsrun-guest.*")
	require.NoError(t, err)
	return found
}
