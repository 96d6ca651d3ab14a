package watch_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/watch"
	"github.com/nsrun/nsrun/nsrun/hostrun"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

// put writes a file, and the directories above it.
func put(t testing.TB, root, name, text string, mode os.FileMode) {
	t.Helper()
	at := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.WriteFile(at, []byte(text), mode))
	require.NoError(t, os.Chmod(at, mode))
}

// repository makes one without git.
func repository(t testing.TB, root, at string) {
	put(t, root, at+"/HEAD", "ref: refs/heads/main\n", 0o644)
	put(t, root, at+"/config", "[core]\n\tbare = false\n", 0o644)
	for _, dir := range []string{"objects", "refs/heads", "hooks"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, at, dir), 0o755))
	}
}

// after has act change a directory, and returns what was found, with paths below it.
func after(t testing.TB, root string, opts watch.Options, act func(), paths ...string) (found []string, all []watch.Change) {
	t.Helper()
	w := watch.Open([]watch.Grant{{Source: root, Paths: paths}}, opts)
	defer w.Close()
	act()
	all, _ = w.Finish()
	for _, c := range all {
		require.NotEmpty(t, c.Why)
		found = append(found, strings.TrimPrefix(c.Path, root+"/")+": "+c.What)
	}
	return found, all
}

// place is a file that a row of the table is about, and what to write to it: first something harmless where that is of use, then something that counts.
func place(row hostrun.Row) (at, before, then string, mode os.FileMode) {
	at, before, then, mode = row.Path, "before\n", "then\n", 0o644
	switch row.Base {
	case hostrun.GitDir:
		at = ".git/" + at
	case hostrun.Worktree:
		at = ".git/worktrees/w/" + at
	}
	switch row.Compared {
	case hostrun.Tree:
		at += "/file.json"
	case hostrun.Hooks:
		at, mode = at+"/pre-commit", 0o755
	case hostrun.GitConfig:
		before, then = "[core]\n\tbare = false\n", "[core]\n\tfsmonitor = /evil\n[submodule \"x\"]\n\turl = ext::evil\n"
	case hostrun.CommonDir:
		before = "../..\n"
	case hostrun.Todo:
		before, then = "pick 1\n", "exec evil\n"
	}
	return at, before, then, mode
}

// TestEveryRowIsNoticed: a program changes each place of the table by a write, by rename, and by a hard link, and makes it anew; each is named. The
// control is a run that changes nothing.
func TestEveryRowIsNoticed(t *testing.T) {
	acts := map[string]func(t *testing.T, root, at, then string, mode os.FileMode){
		"write": func(t *testing.T, root, at, then string, mode os.FileMode) { put(t, root, at, then, mode) },
		"rename": func(t *testing.T, root, at, then string, mode os.FileMode) {
			put(t, root, "other", then, mode)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755))
			require.NoError(t, os.Rename(filepath.Join(root, "other"), filepath.Join(root, at)))
		},
		"link": func(t *testing.T, root, at, then string, mode os.FileMode) {
			put(t, root, "other", then, mode)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755))
			_ = os.Remove(filepath.Join(root, at))
			require.NoError(t, os.Link(filepath.Join(root, "other"), filepath.Join(root, at)))
		},
		"symlink": func(t *testing.T, root, at, then string, mode os.FileMode) {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755))
			_ = os.Remove(filepath.Join(root, at))
			require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(root, at)))
		},
	}
	cases := 0
	for _, row := range hostrun.Table {
		if row.Compared == "" {
			continue
		}
		for _, name := range []string{"write", "rename", "link", "symlink"} {
			for _, exists := range []bool{true, false} {
				for _, opts := range []watch.Options{{}, {Revert: true}} {
					at, before, then, mode := place(row)
					root := t.TempDir()
					repository(t, root, ".git")
					if row.Base == hostrun.Worktree {
						put(t, root, ".git/worktrees/w/HEAD", "x", 0o644)
					}
					if exists {
						put(t, root, at, before, mode)
					} else {
						_ = os.Remove(filepath.Join(root, at))
					}
					what := fmt.Sprintf("%s %s, exists %v, %+v", at, name, exists, opts)
					found, _ := after(t, root, opts, func() {})
					require.Empty(t, found, what)
					was := snapshot(t, root)
					found, all := after(t, root, opts, func() { acts[name](t, root, at, then, mode) })
					require.NotEmpty(t, found, what)
					require.Contains(t, found[0], at, what)
					if opts.Revert {
						_ = os.Remove(filepath.Join(root, "other"))
						require.True(t, all[0].Reverted, "%s: %s", what, all[0].Left)
						require.Equal(t, was, snapshot(t, root), what)
					}
					cases++
				}
			}
		}
	}
	testenv.Count(t, "places and ways to change them", cases)
}

// snapshot gives names, kinds, permissions and contents, but for what was moved out of the way and for directories that are empty.
func snapshot(t testing.TB, root string) (all []string) {
	require.NoError(t, filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if strings.Contains(d.Name(), ".nsrun-reverted-") {
			return filepath.SkipDir
		}
		text := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(at)
			require.NoError(t, err)
			text = string(data)
		}
		if !d.IsDir() {
			all = append(all, fmt.Sprintf("%s %v %q", at, info.Mode(), text))
		}
		return nil
	}))
	return all
}

// TestOddEntries: what cannot be compared is named, without a read that blocks or has no bound.
func TestOddEntries(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, root string){
		"FIFO":      func(t *testing.T, root string) { require.NoError(t, unix.Mkfifo(root+"/.envrc", 0o644)) },
		"shadow":    func(t *testing.T, root string) { require.NoError(t, os.Symlink("/etc/shadow", root+"/.envrc")) },
		"directory": func(t *testing.T, root string) { require.NoError(t, os.Mkdir(root+"/.envrc", 0o755)) },
		"sparse": func(t *testing.T, root string) {
			put(t, root, ".envrc", "", 0o644)
			require.NoError(t, os.Truncate(root+"/.envrc", 10<<30))
		},
	} {
		for _, revert := range []bool{false, true} {
			root := t.TempDir()
			put(t, root, ".envrc", "before", 0o640)
			testenv.Returns(t, name, func() {
				found, all := after(t, root, watch.Options{Revert: revert}, func() {
					require.NoError(t, os.Remove(root+"/.envrc"))
					act(t, root)
				})
				require.Len(t, found, 1, name)
				require.Equal(t, revert, all[0].Reverted, all[0].Left)
			})
			if revert {
				data, err := os.ReadFile(root + "/.envrc")
				require.NoError(t, err)
				require.Equal(t, "before", string(data))
			}
		}
	}
}

// TestADirectoryOfMany: one with 100,000 entries (5,000 in the fast tier) is reported, and costs no more than one with few. Its entries are never removed.
func TestADirectoryOfMany(t *testing.T) {
	root := t.TempDir()
	put(t, root, ".vscode/tasks.json", "{}", 0o644)
	entries := max(testenv.Times(100000), 5000)
	many := func(dir string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for i := range entries {
			require.NoError(t, os.Symlink("x", fmt.Sprintf("%s/%d", dir, i)))
		}
	}
	found, _ := after(t, root, watch.Options{}, func() { many(root + "/.vscode") })
	require.Equal(t, []string{".vscode: holds too much to be compared"}, found)
	w := watch.Open([]watch.Grant{{Source: root}}, watch.Options{Revert: true})
	defer w.Close()
	require.Equal(t, []string{root + "/.vscode"}, w.Uncompared())
	put(t, root, ".vscode/tasks.json", "evil", 0o644)
	put(t, root, ".vscode/new", "evil", 0o644)
	all, _ := w.Finish()
	require.Len(t, all, 1)
	require.False(t, all[0].Reverted)
	require.NotEmpty(t, all[0].Left)
	require.FileExists(t, fmt.Sprint(root, "/.vscode/", entries-1))

	large := t.TempDir() + "/large"
	require.NoError(t, os.Rename(root+"/.vscode", large))
	put(t, large, ".envrc", "x", 0o644)
	cost := testenv.CPUTime(func() {
		found, _ = after(t, large, watch.Options{}, func() { put(t, large, ".mcp.json", "x", 0o644) })
	})
	require.Equal(t, []string{".mcp.json: new file"}, found)
	t.Logf("%v of CPU for two looks at a root with %d entries", cost, entries)
	require.Less(t, cost, time.Second)
}

// TestWhatLeadsElsewhereIsFollowed: a hook, a file of a row, and a configuration that are symlinks or include others count by what they lead to.
func TestWhatLeadsElsewhereIsFollowed(t *testing.T) {
	root := t.TempDir()
	repository(t, root, ".git")
	put(t, root, "scripts/pre-commit", "#!/bin/sh\n", 0o755)
	require.NoError(t, os.Symlink("../../scripts/pre-commit", root+"/.git/hooks/pre-commit"))
	put(t, root, ".git/config", "[include]\n\tpath = ../.gitconfig\n[core]\n\thooksPath = .githooks\n", 0o644)
	put(t, root, ".gitconfig", "[user]\n\tname = x\n", 0o644)
	put(t, root, ".githooks/post-merge", "#!/bin/sh\n", 0o755)
	found, _ := after(t, root, watch.Options{}, func() {
		put(t, root, "scripts/pre-commit", "#!/bin/sh\nevil\n", 0o755)
		put(t, root, ".gitconfig", "[core]\n\tpager = evil\n", 0o644)
		put(t, root, ".githooks/post-merge", "#!/bin/sh\nevil\n", 0o755)
		put(t, root, ".githooks/pre-push", "#!/bin/sh\nevil\n", 0o755)
		put(t, root, ".githooks/README", "not run\n", 0o644)
	})
	require.Equal(t, []string{".gitconfig: core.pager is new", ".githooks/post-merge: changed", ".githooks/pre-push: new file", "scripts/pre-commit: changed"}, found)
}

// TestRepositories: a git directory that was replaced, made, or is a submodule's.
func TestRepositories(t *testing.T) {
	root := t.TempDir()
	found, _ := after(t, root, watch.Options{}, func() { repository(t, root, ".git") })
	require.Empty(t, found, "an empty repository is harmless")
	_ = os.RemoveAll(root + "/.git")
	found, _ = after(t, root, watch.Options{Revert: true}, func() {
		repository(t, root, ".git")
		put(t, root, ".git/config", "[core]\n\tfsmonitor = evil\n", 0o644)
		put(t, root, ".git/hooks/pre-commit", "evil\n", 0o755)
		put(t, root, ".git/hooks/x.sample", "evil\n", 0o755)
	})
	require.Equal(t, []string{".git/config: core.fsmonitor is new", ".git/hooks/pre-commit: new file"}, found)
	require.NoFileExists(t, root+"/.git/config")

	repository(t, root, ".git")
	found, all := after(t, root, watch.Options{Revert: true}, func() {
		require.NoError(t, os.Rename(root+"/.git", root+"/old"))
		put(t, root, ".git", "gitdir: planted\n", 0o644)
	})
	require.Equal(t, []string{".git: new file"}, found)
	require.False(t, all[0].Reverted)
	require.NoFileExists(t, root+"/.git")

	put(t, root, ".git", "gitdir: a\n", 0o644)
	found, _ = after(t, root, watch.Options{Revert: true}, func() { put(t, root, ".git", "gitdir: b\n", 0o644) })
	require.Equal(t, []string{".git: changed"}, found)
	data, _ := os.ReadFile(root + "/.git")
	require.Equal(t, "gitdir: a\n", string(data))

	bare := t.TempDir()
	found, _ = after(t, bare, watch.Options{}, func() {
		repository(t, bare, ".")
		put(t, bare, "config", "[core]\n\tfsmonitor = evil\n", 0o644)
	})
	require.Equal(t, []string{"config: core.fsmonitor is new"}, found, "git takes the root itself for a repository")

	sub := t.TempDir()
	repository(t, sub, ".git")
	repository(t, sub, ".git/modules/libs/one")
	found, _ = after(t, sub, watch.Options{}, func() {
		put(t, sub, ".git/modules/libs/one/config", "[core]\n\tworktree = ../../../../libs/one\n\tfsmonitor = evil\n", 0o644)
		repository(t, sub, ".git/modules/two")
		put(t, sub, ".git/modules/two/hooks/post-checkout", "evil", 0o755)
	})
	require.Equal(t, []string{".git/modules/libs/one/config: core.fsmonitor is new", ".git/modules/two/hooks/post-checkout: new file"}, found)
}

// TestAGitDirectoryThatIsAGrant is looked at as a .git is, with its worktrees and submodules, also when the command has broken it: somebody can mend it.
func TestAGitDirectoryThatIsAGrant(t *testing.T) {
	for _, opts := range []watch.Options{{}, {Revert: true}} {
		root := t.TempDir()
		repository(t, root, ".")
		repository(t, root, "modules/libs/one")
		repository(t, root, "worktrees/w/modules/one") // git has a worktree's submodules there
		put(t, root, "worktrees/w/commondir", "../..\n", 0o644)
		put(t, root, "worktrees/w/gitdir", "/wt/.git\n", 0o644)
		w := watch.Open([]watch.Grant{{Source: root}}, opts)
		real, kept := w.Kept(root)
		w.Close()
		require.Equal(t, root, real)
		require.Equal(t, []string{"hooks", "modules/libs/one/hooks", "worktrees/w/modules/one/hooks"}, kept)
		found, _ := after(t, root, opts, func() {})
		require.Empty(t, found, "control")
		was := snapshot(t, root)
		found, all := after(t, root, opts, func() {
			put(t, root, "config", "[core]\n\tfsmonitor = evil\n", 0o644)
			put(t, root, "hooks/pre-commit", "evil\n", 0o755)
			put(t, root, "worktrees/w/commondir", "/elsewhere\n", 0o644)
			put(t, root, "worktrees/w/config.worktree", "[core]\n\teditor = evil\n", 0o644)
			put(t, root, "modules/libs/one/config", "[core]\n\tpager = evil\n", 0o644)
			put(t, root, "worktrees/w/modules/one/config", "[core]\n\tpager = evil\n", 0o644)
			repository(t, root, "worktrees/w/modules/two")
			put(t, root, "worktrees/w/modules/two/hooks/post-checkout", "evil", 0o755)
			require.NoError(t, os.RemoveAll(root+"/refs"))
		})
		require.Equal(t, []string{"config: core.fsmonitor is new", "hooks/pre-commit: new file", "modules/libs/one/config: core.pager is new",
			"worktrees/w/commondir: new file", "worktrees/w/config.worktree: core.editor is new", "worktrees/w/modules/one/config: core.pager is new",
			"worktrees/w/modules/two/hooks/post-checkout: new file"}, found)
		if opts.Revert {
			for _, c := range all {
				require.True(t, c.Reverted, "%s: %s", c.Path, c.Left)
			}
			require.NoError(t, os.MkdirAll(root+"/refs/heads", 0o755))
			require.Equal(t, was, snapshot(t, root))
		}
	}
}

// TestRevertKeepsWhatItDoesNotKnow: a file that was there before, and was not looked at, is not removed.
func TestRevertKeepsWhatItDoesNotKnow(t *testing.T) {
	root := t.TempDir()
	put(t, root, "config", "mine", 0o644)
	put(t, root, "real/config", "[core]\n\tpager = mine\n", 0o644)
	_, all := after(t, root, watch.Options{Revert: true}, func() {
		repository(t, root, ".")
		put(t, root, "config", "[core]\n\tfsmonitor = evil\n", 0o644)
		put(t, root, ".git", "gitdir: real\n", 0o644)
	})
	require.NotEmpty(t, all)
	require.FileExists(t, root+"/config")
	require.FileExists(t, root+"/real/config")
}

func TestOwnPaths(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a/deploy.sh", "x", 0o755)
	put(t, root, "b/one", "x", 0o644)
	found, all := after(t, root, watch.Options{Revert: true}, func() {
		require.NoError(t, os.Chmod(root+"/a/deploy.sh", 0o700))
		require.NoError(t, os.RemoveAll(root+"/b"))
		put(t, root, "c", "new", 0o644)
	}, "a/deploy.sh", "b", "c")
	require.Equal(t, []string{"a/deploy.sh: changed", "b/one: gone", "c: new file"}, found)
	for _, c := range all {
		require.True(t, c.Reverted, "%s: %s", c.Path, c.Left)
	}
	info, err := os.Stat(root + "/a/deploy.sh")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	require.FileExists(t, root+"/b/one")
	require.NoFileExists(t, root+"/c")
}

func TestWhatIsReadOnly(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	repository(t, root, ".git")
	put(t, root, ".bashrc", "", 0o644)
	put(t, root, ".envrc", "", 0o644)
	require.NoError(t, os.Symlink("x", root+"/.zshrc"))
	w := watch.Open([]watch.Grant{{Source: root, Paths: []string{"a"}}}, watch.Options{})
	defer w.Close()
	real, kept := w.Kept(root)
	require.Equal(t, []string{".git/hooks", ".bashrc"}, kept)
	require.Equal(t, root, real)
	w = watch.Open([]watch.Grant{{Source: root}}, watch.Options{Strict: true})
	defer w.Close()
	_, kept = w.Kept(root)
	slices.Sort(kept)
	require.Equal(t, []string{".bashrc", ".envrc", ".git", ".git/hooks"}, kept)
	link := t.TempDir() + "/link"
	require.NoError(t, os.Symlink(root, link))
	w = watch.Open([]watch.Grant{{Source: link}}, watch.Options{})
	defer w.Close()
	real, _ = w.Kept(link)
	require.Equal(t, root, real)
	for _, none := range []string{"/nonexistent", root + "/.envrc", root + "/.git/HEAD"} {
		w := watch.Open([]watch.Grant{{Source: none}}, watch.Options{})
		found, _ := w.Finish()
		require.Empty(t, found)
		w.Close()
	}
}

// TestAGrantThatIsAFile: its own row counts, and no other of its directory.
func TestAGrantThatIsAFile(t *testing.T) {
	root := t.TempDir()
	repository(t, root, ".git")
	put(t, root, ".envrc", "x", 0o644)
	put(t, root, "other", "x", 0o644)
	w := watch.Open([]watch.Grant{{Source: root + "/.envrc"}, {Source: root + "/.git/config"}, {Source: root + "/other"}}, watch.Options{Revert: true})
	defer w.Close()
	put(t, root, ".envrc", "y", 0o644)
	put(t, root, "other", "y", 0o644)
	put(t, root, ".mcp.json", "y", 0o644)
	put(t, root, ".git/config", "[core]\n\tpager = evil\n", 0o644)
	var found []string
	all, _ := w.Finish()
	for _, c := range all {
		require.True(t, c.Reverted, c.Left)
		found = append(found, strings.TrimPrefix(c.Path, root+"/")+": "+c.What)
	}
	require.Equal(t, []string{".envrc: changed", ".git/config: core.pager is new"}, found)
}

// TestGitsOwnWork: what git does by itself is no change.
func TestGitsOwnWork(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have git")
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = filepath.Join(root, dir)
		cmd.Env = []string{"HOME=" + root + "/nohome", "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
	}
	found, _ := after(t, root, watch.Options{}, func() {
		git(".", "init", ".")
		put(t, root, "a", "1", 0o644)
		git(".", "add", ".")
		git(".", "commit", "-m", "one")
		git(".", "init", "--bare", "remote.git")
	})
	require.Empty(t, found)
	found, _ = after(t, root, watch.Options{}, func() {
		git(".", "remote", "add", "origin", root+"/remote.git")
		git(".", "push", "-u", "origin", "main")
		git(".", "checkout", "-b", "other", "main")
		put(t, root, "a", "2", 0o644)
		git(".", "stash")
		git(".", "stash", "pop")
		git(".", "commit", "-am", "two")
		git(".", "checkout", "main")
		git(".", "merge", "other")
		git(".", "worktree", "add", "wt", "-b", "third")
		git(".", "config", "user.name", "me")
		git(".", "submodule", "add", root+"/remote.git", "libs/sub")
		git(".", "commit", "-m", "sub")
		git(".", "sparse-checkout", "set", "libs")
		git(".", "sparse-checkout", "disable")
		git(".", "gc")
		git(".", "branch", "--set-upstream-to", "origin/main", "other")
	})
	require.Empty(t, found)
	found, _ = after(t, root, watch.Options{}, func() { git(".", "config", "core.hooksPath", ".husky/_") })
	require.Equal(t, []string{".git/config: core.hooksPath is new"}, found)
}

// TestRevertFollowsNoLink: directories of the table that were replaced by symlinks are made anew, and nothing is written to where the symlinks lead.
func TestRevertFollowsNoLink(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	put(t, outside, "workflows/a.yml", "outside", 0o644)
	put(t, outside, "tasks.json", "outside", 0o644)
	put(t, root, ".github/workflows/a.yml", "mine", 0o640)
	put(t, root, ".vscode/tasks.json", "mine", 0o600)
	put(t, root, ".claude/hooks/deep/run.sh", "mine", 0o755)
	was, far := snapshot(t, root), snapshot(t, outside)
	found, all := after(t, root, watch.Options{Revert: true}, func() {
		for _, name := range []string{".github", ".vscode", ".claude"} {
			require.NoError(t, os.RemoveAll(root+"/"+name))
		}
		require.NoError(t, os.Symlink(outside, root+"/.github"))
		require.NoError(t, os.Symlink(outside, root+"/.vscode"))
		require.NoError(t, unix.Mkfifo(root+"/.claude", 0o644))
	})
	require.Equal(t, []string{".claude: is a FIFO now", ".github: is a symlink now", ".vscode: is a symlink now"}, found)
	for _, c := range all {
		require.True(t, c.Reverted, "%s: %s", c.Path, c.Left)
	}
	require.Equal(t, was, snapshot(t, root))
	require.Equal(t, far, snapshot(t, outside))
}
