package load_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostileRepository makes a repository whose configuration has git run a program for all that git has a setting for. The program leaves a file.
func hostileRepository(t *testing.T) (work string, ran func() bool) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("git is not installed")
		}
		t.Skip("git is not installed")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	work = filepath.Join(root, "work")
	require.NoError(t, os.Mkdir(work, 0o755))
	require.NoError(t, os.WriteFile(work+"/a.py", []byte("x = 1\n"), 0o644))
	marker := filepath.Join(filepath.Dir(work), "ran")
	evil := filepath.Join(work, "evil")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+marker+"\nprintf '[GNUPG:] SIG_CREATED \\n' >&2\necho -----BEGIN PGP SIGNATURE-----\ncat >/dev/null\n"), 0o755))
	git := func(words ...string) {
		c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "gpg.program=" + evil}, words...)...)
		c.Dir, c.Env = work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(work), "GIT_CONFIG_NOSYSTEM=1"}
		out, err := c.CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
	}
	git("init", "-q")
	require.NoError(t, os.WriteFile(work+"/.gitattributes", []byte("*.py diff=evil filter=evil\n"), 0o644))
	git("add", "a.py", ".gitattributes")
	git("commit", "-q", "-S", "-m", "first")
	require.NoError(t, os.WriteFile(work+"/a.py", []byte("x = 2\n"), 0o644))
	git("add", "a.py")
	git("commit", "-q", "-S", "-m", "second")
	require.NoError(t, os.WriteFile(work+"/a.py", []byte("x = 3\n"), 0o644))
	git("add", "a.py")
	for _, setting := range []string{"core.fsmonitor", "core.pager", "diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge",
		"gpg.program", "gpg.openpgp.program", "core.sshCommand", "core.editor"} {
		git("config", setting, evil)
	}
	git("config", "log.showSignature", "true")
	git("config", "format.pretty", "%G? %s")
	require.NoError(t, os.WriteFile(work+"/a.py", []byte("x = 4\n"), 0o644))
	require.NoError(t, os.MkdirAll(work+"/.git/hooks", 0o755))
	require.NoError(t, os.Symlink(evil, work+"/.git/hooks/post-index-change"))
	return work, func() bool {
		_, err := os.Stat(marker)
		_ = os.Remove(marker)
		return err == nil
	}
}

// TestGitRunsNothingUnderPassive executes what passive accepts of git in a hostile repository, with the rule's variables and no sandbox. The
// same commands without those, and what passive refuses, run the repository's program.
func TestGitRunsNothingUnderPassive(t *testing.T) {
	work, ran := hostileRepository(t)
	ran()
	pol, err := nsrun.NewPolicy().Workspace(work).Commands("passive").Build()
	require.NoError(t, err)
	run := func(env []string, line string) {
		argv := strings.Fields(line)
		c := exec.Command(argv[0], argv[1:]...)
		c.Dir, c.Env = work, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(work)}, env...)
		out, err := c.CombinedOutput()
		if len(env) > 0 {
			assert.NoErrorf(t, err, "%s: %s", line, out)
			assert.NotEmpty(t, out, line)
		}
	}
	for _, line := range []string{"git --version", "git log", "git log --oneline", "git log -n 1", "git log --oneline -n 2", "git log --oneline HEAD~1", "git show --no-ext-diff --no-textconv",
		"git show --no-ext-diff --no-textconv HEAD", "git diff --no-ext-diff --no-textconv --cached", "git diff --no-ext-diff --no-textconv HEAD~1 HEAD"} {
		d, err := runner.CheckCommand(pol.Spec(), "", strings.Fields(line))
		require.NoError(t, err)
		require.Truef(t, d.Accepted, "%s: %s", line, d.Text())
		run(d.Env, line)
		assert.False(t, ran(), "%s runs the repository's program", line)
	}
	for _, line := range []string{"git log", "git show HEAD", "git diff", "git status", "git diff --cached"} {
		run(nil, line)
		assert.True(t, ran(), "control: %s runs it", line)
	}
	for _, line := range []string{"git show HEAD", "git diff", "git status", "git diff --cached"} {
		d, err := runner.CheckCommand(pol.Spec(), "", strings.Fields(line))
		require.NoError(t, err)
		assert.False(t, d.Accepted, line)
	}
}
