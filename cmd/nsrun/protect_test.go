package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/hostrun"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// worked runs a script in a sandbox with dir as the workspace, and returns how that ended.
func worked(t *testing.T, dir, script string, flags ...string) (result.Result, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	got := call(t, dir, slices.Concat([]string{"nsrun", "run", "--workspace", dir, "--result", file}, flags, []string{"--", "sh", "-ec", script})...)
	var r result.Result
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Zero(t, got.code, "%s\n%s", script, got.stderr)
	return r, got.stderr
}

// named lists what a result names, below dir.
func named(r result.Result, dir string) (all []string) {
	for _, c := range r.ProtectedChanged {
		all = append(all, strings.TrimPrefix(c.Path, dir+"/")+": "+c.What)
	}
	return all
}

func needGit(t *testing.T) {
	t.Helper()
	needSandbox(t)
	if _, err := exec.LookPath("git"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have git")
		t.Skip("needs git")
	}
}

// hostGit is what a user of the host types. A marker file says that something ran on the host.
func hostGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// realDir is a directory without symlinks in its path.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// acts are ways for a program to change a file: $1 is the file, $2 its text. They stay in its directory, as .git is a mount of its own.
var acts = map[string]string{
	"write":  `printf %b "$2" >"$1"`,
	"rename": `printf %b "$2" >"${1%/*}/other"; mv -f "${1%/*}/other" "$1"`,
	"link":   `printf %b "$2" >"${1%/*}/other"; ln -f "${1%/*}/other" "$1"; rm "${1%/*}/other"`,
}

// TestEveryPlaceIsNamed: a command changes every place of the table from inside, by writing, by rename and by a link. Each new or changed one is named;
// those that are read-only stay as they are. The control is the same with --protect off, which changes them all.
func TestEveryPlaceIsNamed(t *testing.T) {
	needGit(t)
	for how, act := range acts {
		for _, exists := range []bool{false, true} {
			for _, off := range []bool{false, true} {
				if off && how != "write" {
					continue
				}
				t.Run(fmt.Sprintf("%s exists=%v off=%v", how, exists, off), func(t *testing.T) {
					dir := realDir(t)
					hostGit(t, dir, "init", ".")
					require.NoError(t, os.MkdirAll(dir+"/.git/worktrees/w", 0o755))
					script := "change() { " + act + "; }\n"
					var want, kept, dirs []string
					for _, row := range hostrun.Table {
						at, text := row.Path, "then"
						switch {
						case row.Compared == "":
							continue
						case row.Base == hostrun.GitDir:
							at = ".git/" + at
						case row.Base == hostrun.Worktree:
							at = ".git/worktrees/w/" + at
						}
						switch row.Compared {
						case hostrun.Tree:
							at += "/file.json"
						case hostrun.Hooks:
							at += "/pre-commit"
						case hostrun.GitConfig:
							text = `[core]\n\tpager = /evil\n[submodule "x"]\n\turl = ext::evil\n`
						case hostrun.Todo:
							text = `exec evil\n`
						}
						if at == ".git/commondir" && exists {
							continue // git takes no directory with one for a repository
						}
						if exists {
							require.NoError(t, os.MkdirAll(filepath.Dir(dir+"/"+at), 0o755))
							require.NoError(t, os.WriteFile(dir+"/"+at, []byte("#"), 0o755))
						}
						dirs = append(dirs, filepath.Dir(at))
						script += fmt.Sprintf("( change ./%s '%s' ) || echo refused %s\n", at, text, at)
						if exists && row.Mounted || row.Compared == hostrun.Hooks {
							kept = append(kept, at)
						} else {
							want = append(want, at)
						}
					}
					script = "mkdir -p " + strings.Join(dirs, " ") + "\n" + script
					if off {
						r, _ := worked(t, dir, script, "--protect", "off")
						require.Empty(t, r.ProtectedChanged)
						for _, at := range slices.Concat(want, kept) {
							data, err := os.ReadFile(dir + "/" + at)
							require.NoError(t, err)
							require.NotEqual(t, "#", string(data), at)
						}
						return
					}
					r, stderr := worked(t, dir, script)
					found := named(r, dir)
					for _, at := range want {
						assert.True(t, slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, at+": ") }), "%s is named: %v", at, found)
					}
					for _, at := range kept {
						data, err := os.ReadFile(dir + "/" + at)
						assert.True(t, err != nil || string(data) == "#", "%s is as it was", at)
					}
					assert.Regexp(t, `nsrun: note: .+: .+; also \d+ more \(-v lists them, --protect revert puts them back\)\n`, stderr)
					testenv.Count(t, "places changed from inside", len(want))
				})
			}
		}
	}
}

// planted are ways to have the host's git run a program. script makes them in a sandbox; $EVIL is the program. act is what a user of the host does later.
var planted = map[string]struct {
	bare   bool // the workspace is no repository at first
	script string
	act    []string
	names  string
}{
	"fsmonitor":  {false, `git config core.fsmonitor "$EVIL"`, []string{"status"}, ".git/config: core.fsmonitor is new"},
	"pager":      {false, `printf '[include]\n\tpath = x\n' >>.git/config; printf '[core]\n\tfsmonitor = %s\n' "$EVIL" >.git/x`, []string{"status"}, ".git/config: include.path is new"},
	"commondir":  {false, `cp -r .git planted; git config -f planted/config core.fsmonitor "$EVIL"; echo ../planted >.git/commondir`, []string{"status"}, ".git/commondir: new file"},
	"hooksPath":  {false, `mkdir h; cp "$EVIL" h/pre-commit; git config core.hooksPath h`, []string{"commit", "--allow-empty", "-m", "x"}, ".git/config: core.hooksPath is new"},
	"nested":     {true, `git init -q .; git config core.fsmonitor "$EVIL"`, []string{"status"}, ".git/config: core.fsmonitor is new"},
	"git file":   {true, `git init -q r; git config -f r/.git/config core.fsmonitor "$EVIL"; echo gitdir: r/.git >.git`, []string{"status"}, ".git: new file"},
	"replaced":   {false, `git init -q r; git config -f r/.git/config core.fsmonitor "$EVIL"; rm -rf .git/hooks; mv .git old && ln -s r/.git .git`, []string{"status"}, ".git: is a symlink now"},
	"bare":       {true, `git init -q --bare r; git config -f r/config core.fsmonitor "$EVIL"; git config -f r/config core.bare false; git config -f r/config core.worktree .; mv r/* .`, []string{"status"}, "config: core.fsmonitor is new"},
	"hook":       {false, `cp "$EVIL" .git/hooks/post-commit`, []string{"commit", "--allow-empty", "-m", "x"}, ".git/hooks/post-commit: new file"},
	"rebase":     {false, `git rebase -q --exec "$EVIL" --exec false HEAD~1 || true; sed -i "1i exec $EVIL" .git/rebase-merge/git-rebase-todo`, []string{"rebase", "--continue"}, ".git/rebase-merge/git-rebase-todo: has commands"},
	"gitmodules": {false, `git config --file .gitmodules submodule.x.path x; git config --file .gitmodules submodule.x.url "ext::$EVIL"`, nil, ".gitmodules: submodule.x.url is new"},
}

// TestWhatIsPlantedIsNamed: each way has the host's git run a program, unless the result's report, or revert, keeps the user from it.
func TestWhatIsPlantedIsNamed(t *testing.T) {
	needGit(t)
	for name, c := range planted {
		t.Run(name, func(t *testing.T) {
			dir, marker := realDir(t), filepath.Join(realDir(t), "marker")
			evil := filepath.Join(dir, "evil.sh")
			require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+marker+" 2>/dev/null\n"), 0o755))
			if !c.bare {
				hostGit(t, dir, "init", ".")
				hostGit(t, dir, "add", ".")
				hostGit(t, dir, "commit", "-m", "one")
				hostGit(t, dir, "commit", "--allow-empty", "-m", "two")
			}
			if name == "hook" || name == "replaced" { // which are read-only where they exist
				require.NoError(t, os.RemoveAll(dir+"/.git/hooks"))
			}
			script := "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@example\n" + c.script
			if name == "hook" {
				script = "mkdir .git/hooks\n" + script
			}
			hostGit(t, dir, "status")
			require.NoFileExists(t, marker)

			r, stderr := worked(t, dir, script, "--setenv", "EVIL="+evil, "--protect", "revert")
			require.Contains(t, named(r, dir), c.names)
			require.NotContains(t, stderr, "-v lists it")
			for _, change := range r.ProtectedChanged {
				if name != "replaced" { // of which nsrun has no copy: it only moves the symlink away
					require.True(t, change.Reverted, "%+v", change)
				}
			}
			if c.act != nil {
				hostGit(t, dir, c.act...)
			}
			require.NoFileExists(t, marker, "what revert left runs nothing")
			if name == "replaced" {
				require.NoError(t, os.Rename(dir+"/old", dir+"/.git"))
			}
			require.NoError(t, exec.Command("sh", "-c", "cd "+dir+" && rm -rf r h planted old .git/rebase-merge .gitmodules .git/x *.nsrun-reverted-* .git.nsrun-reverted-* HEAD objects refs hooks info branches description config").Run())

			r, stderr = worked(t, dir, script, "--setenv", "EVIL="+evil)
			require.Contains(t, named(r, dir), c.names)
			require.Contains(t, stderr, "nsrun: note: ")
			if c.act != nil {
				text := hostGit(t, dir, c.act...)
				require.FileExists(t, marker, "control: the host's git runs it: %s", text)
			}
		})
	}
}

// TestStrictHolds: the whole .git and the other places cannot be changed, and git still looks.
func TestStrictHolds(t *testing.T) {
	needGit(t)
	dir := realDir(t)
	hostGit(t, dir, "init", ".")
	require.NoError(t, os.WriteFile(dir+"/.envrc", []byte("x"), 0o644))
	require.NoError(t, os.WriteFile(dir+"/a", []byte("x"), 0o644))
	require.NoError(t, os.WriteFile(dir+"/deploy.sh", []byte("x"), 0o644))
	r, _ := worked(t, dir, `git status >/dev/null; test "$GIT_OPTIONAL_LOCKS" = 0
for f in .git/config .git/hooks/x .git/commondir .envrc deploy.sh; do ! (echo y >>$f) 2>/dev/null; done
! mv .git x 2>/dev/null; ! rm -rf .git 2>/dev/null; echo y >a; mkdir .vscode; echo y >.vscode/tasks.json`, "--protect", "strict", "--protect", "./deploy.sh")
	require.Equal(t, []string{".vscode/tasks.json: new file"}, named(r, dir))
	require.Equal(t, "strict", r.Receipt.Protect.Level)
	require.Equal(t, []string{dir}, r.Receipt.Protect.Compared)
	require.Contains(t, r.Receipt.Protect.ReadOnly, dir+"/.git")
}

// TestGitWorksUnderTheDefault: what git does by itself ends well, leaves a clean tree, and is not reported.
func TestGitWorksUnderTheDefault(t *testing.T) {
	needGit(t)
	for _, backend := range []string{"native", "landlock"} {
		t.Run(backend, func(t *testing.T) {
			dir := realDir(t)
			git := "git() { command git -c protocol.file.allow=always -c user.name=x -c user.email=x@example -c init.defaultBranch=main \"$@\"; }\n"
			flags := []string{"--backend", backend, "--timeout", "5m"}
			if backend == "landlock" && testenv.Landlock() < 6 {
				t.Skip("needs Landlock ABI 6")
			}
			for _, script := range []string{
				"git init -q .; printf '*.git\\n' >.gitignore; echo 1 >a; git add .; git commit -qm one; git init -q --bare remote.git",
				"git remote add origin $PWD/remote.git; git push -qu origin main; git config user.name me",
				"git checkout -qb other; mkdir .vscode; echo {} >a; git commit -qam two; git checkout -q main; git merge -q other; echo 3 >a; git stash -q; git stash pop -q; git checkout -q a",
				"git submodule --quiet add $PWD/remote.git sub; git commit -qm sub; git pull -q --rebase; git gc -q",
				"git checkout -q other; git checkout -q main; git branch -u origin/main; git worktree add -q wt -b third; git worktree remove wt; test -z \"$(git status --porcelain)\"",
			} {
				r, stderr := worked(t, dir, git+script, flags...)
				require.Empty(t, named(r, dir), script)
				require.NotContains(t, stderr, "nsrun: note: .git", script)
			}
			require.Empty(t, hostGit(t, dir, "status", "--porcelain"))
			r, _ := worked(t, dir, git+"mkdir -p .husky/_; echo x >.husky/_/pre-commit; git config core.hooksPath .husky/_", flags...)
			require.Equal(t, []string{".git/config: core.hooksPath is new", ".husky/_/pre-commit: new file"}, named(r, dir))
		})
	}
}

// TestTwoRunsAtOnce: each names what it has made, or what the other has.
func TestTwoRunsAtOnce(t *testing.T) {
	needSandbox(t)
	dir := realDir(t)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			r, _ := worked(t, dir, fmt.Sprintf("mkdir -p .vscode; echo x >.vscode/%d.json", i))
			assert.Contains(t, named(r, dir), fmt.Sprintf(".vscode/%d.json: new file", i))
		})
	}
	wg.Wait()
}

// TestProtectFlags: levels and paths, and grants in which nothing is to be protected.
func TestProtectFlags(t *testing.T) {
	needSandbox(t)
	dir := realDir(t)
	require.NoError(t, os.WriteFile(dir+"/file", []byte("x"), 0o644))
	for want, flags := range map[string][]string{
		"the level is strict already":        {"--protect", "strict", "--protect", "off"},
		"or a path with a slash in it":       {"--protect", "deploy.sh"},
		"protect: the backend landlock cann": {"--workspace", dir, "--backend", "landlock", "--protect", "strict"},
	} {
		got := call(t, dir, slices.Concat([]string{"nsrun", "run"}, flags, []string{"--", "true"})...)
		require.Equal(t, 125, got.code, got.stderr)
		require.Contains(t, got.stderr, want)
	}
	got := call(t, dir, "nsrun", "run", "-v", "--rw", dir+"/file", "--protect", "/nowhere/x", "--", "sh", "-c", "echo y >"+dir+"/file")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stderr, "/nowhere/x lies in no writable grant")
	ceiling := filepath.Join(t.TempDir(), "ceiling.json")
	require.NoError(t, os.WriteFile(ceiling, []byte(`{"fs_write": ["/"], "protect": "revert"}`), 0o644))
	r, _ := worked(t, dir, "echo x >.envrc", "--ceiling", ceiling, "--protect", "off")
	require.Equal(t, []string{".envrc: new file"}, named(r, dir))
	require.NoFileExists(t, dir+"/.envrc")
}
