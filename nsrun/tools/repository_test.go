package tools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layout makes files below a new directory: "name" with its text, or a directory if the name ends with a slash. $D in a text is the directory.
func layout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range files {
		at := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(at, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			require.NoError(t, os.Symlink(target, at))
			continue
		}
		require.NoError(t, os.WriteFile(at, []byte(strings.ReplaceAll(text, "$D", dir)), 0o644))
	}
	return dir
}

// gitDir adds the files of a git directory.
func gitDir(files map[string]string, at string) {
	files[at+"/HEAD"], files[at+"/objects/"], files[at+"/refs/"], files[at+"/config"] = "ref: refs/heads/main\n", "", "", ""
}

// whole is a repository with a worktree, also in a submodule, and submodules.
func whole() map[string]string {
	files := map[string]string{"home/": "", "repo/sub/deep/": "", "wt/sub/": "", "other/sub/": ""}
	for _, at := range []string{"repo/.git", "repo/.git/modules/libs/one", "repo/.git/modules/libs/one/modules/two", "other/.git"} {
		gitDir(files, at)
	}
	files["repo/libs/one/.git"] = "gitdir: ../../.git/modules/libs/one\n"
	files["repo/.git/modules/libs/one/config"] = "[core]\n\tworktree = /elsewhere\n\tworktree = \"../../../../libs/one\"\n"
	files["repo/libs/one/two/.git"] = "gitdir: $D/repo/.git/modules/libs/one/modules/two"
	files["repo/.git/modules/libs/one/modules/two/config"] = "[CORE]\nWorkTree=$D/repo/libs/one/two\n"
	files["wt/.git"] = "gitdir: $D/repo/.git/worktrees/x\r\n"
	files["repo/.git/worktrees/x/gitdir"], files["repo/.git/worktrees/x/commondir"] = "$D/wt/.git\n", "../..\n"
	files["relative/.git"] = "gitdir: ../repo/.git/worktrees/y\n"
	files["repo/.git/worktrees/y/gitdir"], files["repo/.git/worktrees/y/commondir"] = "../../../../relative/.git\n", "../..\n"
	return files
}

// realHost is this host with another home directory.
func realHost(dir string) tools.Host {
	h := hostOf(dir+"/home", nil)
	h.Real = filepath.EvalSymlinks
	return h
}

// shown are the places that were found, below dir, with "rw" or "ro".
func shown(p policy.Policy, dir string) (all []string) {
	for _, e := range p.FS {
		if e.Found {
			access := "ro "
			if e.Write {
				access = "rw "
			}
			all = append(all, access+strings.TrimPrefix(e.Dest, dir+"/"))
		}
	}
	return all
}

func reasons(p policy.Policy) string {
	var all []string
	for _, n := range p.Notes {
		all = append(all, n.Loss)
	}
	return strings.Join(all, "\n")
}

func TestRepositoriesAreFound(t *testing.T) {
	dir := layout(t, whole())
	for workspace, want := range map[string][]string{
		"repo":              nil,
		"repo/sub":          {"ro repo", "rw repo/.git"},
		"repo/sub/deep":     {"ro repo", "rw repo/.git"},
		"wt":                {"rw repo/.git"},
		"wt/sub":            {"ro wt", "rw repo/.git"},
		"relative":          {"rw repo/.git"},
		"repo/libs/one":     {"rw repo/.git/modules/libs/one"},
		"repo/libs/one/two": {"rw repo/.git/modules/libs/one/modules/two"},
		"repo/libs":         {"ro repo", "rw repo/.git"},
		"home":              nil,
		"repo/.git/objects": nil,
		"repo/.git":         nil,
		"gone":              nil,
		"repo/.git/HEAD":    nil,
	} {
		p := add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/"+workspace, true, "--workspace"), "git")
		assert.Equal(t, want, shown(p, dir), workspace)
		assert.Empty(t, p.Notes, workspace)
		set := strings.HasPrefix(strings.Join(want, ""), "ro ")
		assert.Equal(t, set, len(p.Env.Set) == 1, workspace)
	}
	with := func(p policy.Policy, op policy.Operator) []string {
		p.Tools = []string{"git"}
		p, _, err := tools.Add(p, op, realHost(dir))
		require.NoError(t, err)
		p, err = policy.Normalize(p, op)
		require.NoError(t, err)
		return shown(p, dir)
	}
	ro := policy.Default("/home/me").Grant(dir+"/repo/sub", false, "--ro")
	assert.Equal(t, []string{"ro repo", "ro repo/.git"}, with(ro, policy.Operator{}))
	both := ro.Grant(dir+"/repo/libs", true, "--rw")
	assert.Len(t, add(t, realHost(dir), both, "git").Env.Set, 1)
	assert.Equal(t, []string{"ro repo", "rw repo/.git"}, with(both, policy.Operator{}))
	whole := ro.Grant(dir+"/repo", false, "--ro")
	assert.Empty(t, with(whole, policy.Operator{}), "what is asked for decides")
	strict := both
	strict.Protect = policy.ProtectStrict
	assert.Equal(t, []string{"ro repo", "ro repo/.git"}, with(strict, policy.Operator{}))
	permits := policy.Ceiling{Tools: []string{"git"}, FSWrite: []string{dir}}
	assert.Equal(t, []string{"ro repo", "rw repo/.git"}, with(both, policy.Operator{Ceilings: []policy.Ceiling{permits}}), "control")
	raised := permits
	raised.Protect = policy.ProtectStrict
	assert.Equal(t, []string{"ro repo", "ro repo/.git"}, with(both, policy.Operator{Ceilings: []policy.Ceiling{permits, raised}}))
	for _, level := range []policy.Isolation{policy.Subprocess, policy.Permissive} {
		bare := both
		bare.Isolation = level
		assert.Empty(t, with(bare, policy.Operator{}), "there is no view")
	}
}

// TestRepositoriesAreRefused: each case is whole with a change, and the reason.
func TestRepositoriesAreRefused(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		workspace string
		change    map[string]string
		says      string
	}{
		{"wt", map[string]string{"wt/.git": "gitdir: $D/repo/.git"}, "neither a worktree's nor in the .git/modules"},
		{"wt", map[string]string{"wt/.git": "gitdir: $D/home"}, "neither a worktree's"},
		{"wt", map[string]string{"wt/.git": "gitdir: $D/gone"}, "is not there"},
		{"wt", map[string]string{"wt/.git": "gitdir: "}, "neither a worktree's"},
		{"wt", map[string]string{"wt/.git": ""}, "is none of git's files"},
		{"wt", map[string]string{"wt/.git": "gitdir: a\nb"}, "is none of git's files"},
		{"wt", map[string]string{"wt/.git": "gitdir: \x1b[31m"}, "is none of git's files"},
		{"wt", map[string]string{"wt/.git": "gitdir: " + long}, "more than 4096 bytes"},
		{"wt", map[string]string{"wt/.git": "-> ../repo/.git"}, "neither a directory nor a file"},
		{"wt/sub", map[string]string{"wt/.git": "-> ../repo/.git"}, "neither a directory nor a file"},
		{"wt", map[string]string{"wt/.git": "gitdir: link", "wt/link": "-> ../repo/.git/worktrees/x"}, "leads through a symlink"},
		{"wt", map[string]string{"wt/.git": "gitdir: link/../worktrees/x", "wt/link": "-> ../repo/.git/objects"}, "leads through a symlink"},
		{"wt", map[string]string{"wt/.git": "gitdir: $D/repo/.git/worktrees/y"}, "gitdir does not name that back"},
		{"wt", map[string]string{"repo/.git/worktrees/x/gitdir": "$D/relative/.git"}, "gitdir does not name that back"},
		{"wt", map[string]string{"repo/.git/worktrees/x/gitdir": ""}, "gitdir does not name that back"},
		{"wt", map[string]string{"repo/.git/worktrees/x/gitdir": "-> ../y/gitdir"}, "too many levels of symbolic links"},
		{"wt", map[string]string{"repo/.git/worktrees/x/commondir": "$D/other/.git"}, "commondir names another directory"},
		{"wt", map[string]string{"repo/.git/worktrees/x/commondir": "../../../../other/.git"}, "commondir names another directory"},
		// A complete worktree of the command's own, with a common directory that is none.
		{"wt", map[string]string{"wt/.git": "gitdir: ../home/worktrees/x", "home/worktrees/x/gitdir": "$D/wt/.git", "home/worktrees/x/commondir": "../.."}, "home has no HEAD, objects and refs"},
		{"wt", map[string]string{"wt/.git": "gitdir: ../home/worktrees/x", "home/worktrees/x/gitdir": "$D/wt/.git", "home/worktrees/x/commondir": "../..", "home/HEAD": "", "home/objects/": "",
			"home/refs/": ""}, "home is not called .git"},
		// What once was a worktree, and is a symlink now.
		{"wt", map[string]string{"repo/.git/worktrees/x/gitdir": "$D/once/.git", "once": "-> wt"}, "gitdir does not name that back"},
		{"repo/libs/one", map[string]string{"repo/.git/modules/libs/one/config": "[core]\n\tworktree = $D/once", "once": "-> repo/libs/one"}, "core.worktree does not name"},
		{"repo/libs/one", map[string]string{"repo/.git/modules/libs/one/config": "[core]\n\tworktree = ../../../../libs/one/two"}, "core.worktree does not name"},
		{"repo/libs/one", map[string]string{"repo/.git/modules/libs/one/config": "[core]\n\tworktree = ../../../../libs/one\n\tworktree = /x"}, "core.worktree does not name"},
		{"repo/libs/one", map[string]string{"repo/.git/modules/libs/one/config": "[core"}, "configuration cannot be read"},
		{"repo/libs/one", map[string]string{"repo/.git/modules/libs/one/config": ""}, "core.worktree does not name"},
		{"repo/libs/one", map[string]string{"repo/libs/one/.git": "gitdir: ../../.git/modules"}, "neither a worktree's nor"},
		{"repo/libs/one", map[string]string{"repo/libs/one/.git": "gitdir: ../../.git/modules/libs"}, "that has no HEAD"},
		{"wt", map[string]string{"wt/.git": "gitdir: $D/repo/.git/modules/libs/one", "repo/.git/modules/libs/one/config": "[core]\n\tworktree = $D/wt"}, "neither a worktree's nor"},
		{"other/sub", map[string]string{"other/.git/HEAD": "gone"}, "has no HEAD, objects and refs"},
		{"repo/sub", map[string]string{"repo/.bashrc": ""}, "looks like a home directory: it has .bashrc"},
		{"repo/sub", map[string]string{"repo/.ssh/": ""}, "looks like a home directory: it has .ssh"},
		{"repo/sub", map[string]string{"repo/.gnupg": "-> /nonexistent"}, "looks like a home directory: it has .gnupg"},
	} {
		files := whole()
		for name, text := range tt.change {
			if files[name] = text; text == "gone" {
				delete(files, name)
			}
		}
		dir := layout(t, files)
		p := add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/"+tt.workspace, true, "--workspace"), "git")
		assert.Empty(t, shown(p, dir), tt)
		assert.Contains(t, reasons(p), tt.says, tt)
		assert.Contains(t, reasons(p), "the repository of "+dir+"/"+tt.workspace+" is not shown: ", tt)
		assert.Empty(t, p.Env.Set, tt)
	}

	dir := layout(t, whole())
	p := policy.Default("/home/me").Grant(dir+"/repo/sub", true, "--workspace")
	none := realHost(dir)
	none.Home = ""
	assert.Contains(t, reasons(add(t, none, p, "git")), "HOME names no directory")
	for _, home := range []string{dir + "/repo", dir + "/repo/sub", dir + "/repo/.git/x"} {
		h := realHost(dir)
		h.Home = home
		got := add(t, h, p, "git")
		assert.Empty(t, shown(got, dir), home)
		assert.Contains(t, reasons(got), "home directory", home)
	}
	require.NoError(t, os.Symlink("repo", dir+"/alias"))
	p = policy.Default("/home/me").Grant(dir+"/alias/sub", true, "--workspace")
	assert.Contains(t, reasons(add(t, realHost(dir), p, "git")), "leads through a symlink to "+dir+"/repo/sub; name that")
	p = policy.Default("/home/me").Grant(dir+"/alias", true, "--workspace")
	assert.Empty(t, reasons(add(t, realHost(dir), p, "git")), "nothing is missing")
	for _, at := range []string{"repo", "repo/.git", "repo/.git/worktrees/x", "wt"} {
		workspace := "/wt"
		if at == "repo" {
			workspace = "/repo/sub"
		}
		p = policy.Default("/home/me").Grant(dir+workspace, true, "--workspace")
		require.NoError(t, os.Chmod(dir+"/"+at, 0o757))
		assert.Contains(t, reasons(add(t, realHost(dir), p, "git")), "everybody can write to "+dir+"/"+at)
		require.NoError(t, os.Chmod(dir+"/"+at, 0o755))
		assert.NotEmpty(t, shown(add(t, realHost(dir), p, "git"), dir), "control")
	}
}

// TestOthersRepositories are refused, but for those of the user who has called sudo.
func TestOthersRepositories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := layout(t, whole())
	for _, name := range []string{"repo/.git", "repo", "wt"} {
		if err := os.Chown(dir+"/"+name, 4242, 4242); err != nil {
			t.Skip(err)
		}
	}
	for _, tt := range []struct {
		caller, workspace string
		want              []string
		safe              string
	}{
		{"", "wt", nil, ""}, {"4343", "wt", nil, ""}, {"0", "wt", nil, ""}, {"4242x", "wt", nil, ""}, {"-1", "wt", nil, ""},
		{"4242", "wt", []string{"rw repo/.git"}, "wt"},
		{"4242", "repo/sub", []string{"ro repo", "rw repo/.git"}, "repo"},
		{"4242", "repo", nil, "repo"},
		{"", "repo", nil, ""}, {"4343", "repo", nil, ""},
		{"4242", "other/sub", []string{"ro other", "rw other/.git"}, ""}, // root's
	} {
		h := realHost(dir)
		h.Lookup = func(name string) (string, bool) { return tt.caller, name == "SUDO_UID" && tt.caller != "" }
		p := add(t, h, policy.Default("/home/me").Grant(dir+"/"+tt.workspace, true, "--workspace"), "git")
		assert.Equal(t, tt.want, shown(p, dir), tt)
		data := ""
		if at := p.At("/home/me/.gitconfig"); at.Kind == policy.File {
			data = string(at.Data)
		}
		if tt.safe == "" {
			assert.NotContains(t, data, "safe", tt)
			continue
		}
		assert.Contains(t, data, "[safe]\n\tdirectory = \""+dir+"/"+tt.safe+"\"\n", tt)
	}
}

// TestSubmodulesOfWorktrees have their git directory in that of the worktree, which has to name its own back, as they do.
func TestSubmodulesOfWorktrees(t *testing.T) {
	files := whole()
	at := "repo/.git/worktrees/x/modules/libs/one"
	gitDir(files, at)
	files["wt/libs/one/.git"], files[at+"/config"] = "gitdir: ../../../"+at+"\n", "[core]\n\tworktree = ../../../../../../../wt/libs/one\n"
	files["wt/libs/one/deep/"], files["evil/one/.git"] = "", "gitdir: $D/"+at+"\n"
	for change, want := range map[string][]string{
		"":                             {"rw " + at},
		"repo/.git/worktrees/x/gitdir": nil, // the worktree is none of the repository
		at + "/config":                 nil,
		"wt/.git":                      nil,
	} {
		changed := map[string]string{}
		for name, text := range files {
			changed[name] = text
		}
		if change != "" {
			changed[change] = "gitdir: $D/other/.git\n"
		}
		dir := layout(t, changed)
		p := add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/wt/libs/one", true, "--workspace"), "git")
		assert.Equal(t, want, shown(p, dir), change)
		assert.Equal(t, want == nil, strings.Contains(reasons(p), "is not shown: "), change)
	}
	dir := layout(t, files)
	p := add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/wt/libs/one/deep", true, "--workspace"), "git")
	assert.Equal(t, []string{"ro wt/libs/one", "rw " + at}, shown(p, dir))
	p = add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/evil/one", true, "--workspace"), "git")
	assert.Empty(t, shown(p, dir), "of another directory")
}

// TestSeparateGitDirectories are not shown, as they name nothing back. The note has the flags that show them, and with these there is none.
func TestSeparateGitDirectories(t *testing.T) {
	files := map[string]string{"home/": "", "work/sub/": "", "work/.git": "gitdir: $D/sep\n"}
	gitDir(files, "sep")
	dir := layout(t, files)
	p := add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/work/sub", true, "--workspace"), "git")
	assert.Empty(t, shown(p, dir))
	assert.Empty(t, p.Env.Set)
	require.Len(t, p.Notes, 1)
	assert.Equal(t, "look at it; if it is right, grant it with --rw "+dir+"/sep --ro "+dir+"/work", p.Notes[0].Fix)
	p = add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/work/sub", true, "--workspace").Grant(dir+"/work", false, "--ro").Grant(dir+"/sep", true, "--rw"), "git")
	assert.Empty(t, p.Notes)
	assert.Contains(t, p.Env.Set, policy.Var{Name: "GIT_DISCOVERY_ACROSS_FILESYSTEM", Value: "1"})
	p = add(t, realHost(dir), policy.Default("/home/me").Grant(dir+"/work", true, "--workspace"), "git")
	require.Len(t, p.Notes, 1)
	assert.Equal(t, "look at it; if it is right, grant it with --rw "+dir+"/sep", p.Notes[0].Fix)
}

// TestBorrowedObjects are not shown: the note has the flag.
func TestBorrowedObjects(t *testing.T) {
	files := map[string]string{"home/": "", "copy/sub/": "", "copy/.git/objects/info/alternates": "# from\n$D/base/.git/objects\n"}
	gitDir(files, "copy/.git")
	gitDir(files, "base/.git")
	dir := layout(t, files)
	for _, workspace := range []string{"copy", "copy/sub"} {
		plain := policy.Default("/home/me").Grant(dir+"/"+workspace, true, "--workspace")
		p := add(t, realHost(dir), plain, "git")
		require.Len(t, p.Notes, 1, workspace)
		assert.Contains(t, p.Notes[0].Loss, "the repository of "+dir+"/copy/.git borrows objects from "+dir+"/base/.git/objects, which is not shown")
		assert.Contains(t, p.Notes[0].Fix, "grant it with --ro "+dir+"/base/.git/objects")
		assert.NotContains(t, strings.Join(shown(p, dir), " "), "base")
		p = add(t, realHost(dir), plain.Grant(dir+"/base/.git/objects", false, "--ro"), "git")
		assert.Empty(t, p.Notes, workspace)
	}
}
