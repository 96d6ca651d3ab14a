package tools_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// project is a repository with a module at its top, a package below, and other things around it that are none of its own.
func project() map[string]string {
	files := map[string]string{"home/package.json": "", "home/repo/a/b/": "", "plain/a/": "", "repo/a/b/": "", "repo/a/c/Cargo.toml": ""}
	for _, at := range []string{"repo/.git", "home/.git", "home/repo/.git"} {
		gitDir(files, at)
	}
	files["pom.xml"], files["repo/go.mod"], files["repo/a/package.json"], files["repo/CMakeLists.txt/"] = "", "", "", ""
	files["plain/package.json"] = ""
	files["home/a/"] = ""
	files["link"], files["repo/a/out"], files["repo/a/in"] = "-> repo/a", "-> ../../plain", "-> c"
	return files
}

// in is the default policy with a workspace and a working directory.
func in(workspace, cwd string) policy.Policy {
	p := policy.Default("/home/me").Grant(workspace, true, "--workspace")
	p.FS[len(p.FS)-1].Directory, p.Dir = true, cwd
	return p
}

// suggested are the presets for a workspace and a working directory in it, with their marks below dir.
func suggested(dir, workspace, cwd string) (all []string) {
	for _, m := range tools.Suggest(in(dir+"/"+workspace, dir+"/"+cwd), realHost(dir)) {
		all = append(all, m.Tool+" "+strings.TrimPrefix(m.File, dir+"/"))
	}
	return all
}

func TestSuggestionsByMark(t *testing.T) {
	dir := layout(t, project())
	top := []string{"cc repo/CMakeLists.txt", "git repo/.git", "go repo/go.mod"}
	for _, tt := range []struct {
		workspace, cwd string
		want           []string
	}{
		{"repo", "repo", top},
		{"repo", "elsewhere", top},
		{"repo/a/b", "repo/a/b", append(top[:3:3], "node repo/a/package.json")}, // a part: up to the top of the repository, not to pom.xml above
		{"repo", "repo/a/b", append(top[:3:3], "node repo/a/package.json")},
		{"repo", "repo/a/c", append(top[:3:3], "node repo/a/package.json", "rust repo/a/c/Cargo.toml")},
		{"repo", "repo/a/out", top}, // a symlink: of neither side
		{"repo", "repo/a/in", top},
		{"repo", "repo/a/gone", top},
		{"plain/a", "plain/a", nil}, // no part of a repository: nothing above is in view
		{"home/a", "home/a", nil},   // the repository would be the whole home directory
		{"home/repo/a", "home/repo/a/b", []string{"git home/repo/.git"}},
		{"link", "link", []string{"node link/package.json"}}, // not above a link
		{"gone", "gone", nil},
	} {
		assert.Equal(t, tt.want, suggested(dir, tt.workspace, tt.cwd), "%s in %s", tt.cwd, tt.workspace)
	}
	assert.Empty(t, tools.Suggest(policy.Default("/home/me"), realHost(dir)), "no workspace")

	with := add(t, realHost(dir), in(dir+"/repo/a/b", dir+"/repo/a/b"), "git")
	with, err := policy.Normalize(with, policy.Operator{})
	require.NoError(t, err)
	assert.Contains(t, tools.Suggest(with, realHost(dir)), tools.Mark{Tool: "node", File: dir + "/repo/a/package.json"}, "what the preset shows is not taken for the workspace")

	require.NoError(t, os.Chmod(dir+"/repo/.git", 0o777))
	assert.Empty(t, suggested(dir, "repo/a/b", "repo/a/b"), "a repository that everybody can write to")
}

// TestSuggestionsForAProject are those by its marks, where a program of the project's has failed.
func TestSuggestionsForAProject(t *testing.T) {
	files := project()
	files["home/.npm/"], files["home/go/pkg/mod/"] = "", ""
	dir := layout(t, files)
	p := in(dir+"/repo/a", dir+"/repo/a")
	for _, command := range [][]string{{"./test"}, {"tools/test"}, {"make", "test"}, {"sh", "test.sh"}, {"bash", "ci/test.sh"}, {"sh", "-c", "./test"}, {"sh", "-c", "cd x; ../test"}} {
		names := tools.SuggestFor(p, command, realHost(dir))
		assert.Subset(t, names, []string{"git", "go", "node"}, command)
		assert.NotContains(t, names, "java", command)
	}
	for _, command := range [][]string{{"test"}, {"/bin/test"}, {"sh", "/usr/bin/ldd"}, {"sh", "-e"}, {"sh", "-c", "test"}, {"cat", "./a"}} {
		assert.Empty(t, tools.SuggestFor(p, command, realHost(dir)), command)
	}
}

func TestUnshown(t *testing.T) {
	notes := []policy.Note{{Feature: "view", Loss: "git: x"}, {Feature: "tools", Loss: "/x (tool git) starts empty"}, {Feature: "tools", Loss: "git: y"}, {Feature: "tools", Loss: "node: z"}}
	for word, loss := range map[string]string{"git": "git: y", "npm": "node: z", "ls": ""} {
		n, ok := tools.Unshown(notes, []string{"sh", "-c", "cd x; " + word + " a"})
		assert.Equal(t, loss, n.Loss, word)
		assert.Equal(t, loss != "", ok, word)
	}
}
