package hostrun_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/hostrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

// seeds are configurations as git writes them, and as an attacker would.
var seeds = []string{
	"", "\n", "[core]\n\tbare = false\n", "[core]fsmonitor=evil", "[Core]\n FSMonitor = evil ; x\n", "[a \"b\\\"c\\\\]\"] d = e\n", "[a.B]\nc=1\n",
	"[core]\n\tpager = \"less -R\" # c\n", "[core]\n\tpager = a\\\n b\n", "[core]\n\tpager = \"a\\tb\\n\\\"\\\\\"\n", "[core]\neditor\n", "[x]\ny = \"unclosed\n",
	"[x]\ny = \\q\n", "[x\ny=1\n", "[core] ; comment\n\tx = y\n", "[core]\r\n\tx = y\r\n", "\ufeff[core]\nx=y", "[include]\n path = ../.gitconfig\n",
	"[remote \"o\"]\n\turl = ext::sh -c evil\n\tfetch = +refs/heads/*:refs/remotes/o/*\n", "x = y\n", "[core] a b\n", "[s \"\"]\nk=v\n", "[a]b=c d\t \n", "[a]\nb=\"x \" y \n",
	"[a]\nb = x\\", "[a]\nb-c = 1\n", "[ \"x\"]\na=b", "[a]\n;b=c\\\nd=e\n", "[a]\x00b=c", "# [core]\nx", "[a] [b] c = d\n",
}

// TestAConfigurationReadsAsGitReadsIt compares with git itself, which is the program that acts on the file.
func TestAConfigurationReadsAsGitReadsIt(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have git")
		t.Skip("git is not installed")
	}
	for _, text := range seeds {
		file := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		cmd := exec.Command(git, "config", "--file", file, "--list", "-z")
		cmd.Env = []string{"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		out, gitErr := cmd.Output()
		all, err := hostrun.ParseGitConfig([]byte(text))
		if err != nil {
			continue // it counts as changed, whatever git makes of it
		}
		require.NoError(t, gitErr, "git refuses what was read: %q", text)
		var want, got []string
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			key, value, ok := strings.Cut(entry, "\n")
			if !ok {
				value = "true"
			}
			if key != "" {
				want = append(want, key+"="+value)
			}
		}
		for _, s := range all {
			got = append(got, s.Key+"="+s.Value)
		}
		require.Equal(t, want, got, "%q", text)
	}
}

func FuzzParseGitConfig(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := hostrun.ParseGitConfig(data)
		again, err2 := hostrun.ParseGitConfig(data)
		if (err == nil) != (err2 == nil) || !slices.Equal(all, again) {
			t.Fatal("two readings differ")
		}
		for _, s := range all {
			if !strings.Contains(s.Key, ".") {
				t.Fatalf("the key %q has no section", s.Key)
			}
			s.Runs()
		}
		hostrun.Includes(all)
		hostrun.TodoCommands(data)
	})
}

func TestSettingsThatRunPrograms(t *testing.T) {
	for text, want := range map[string]bool{
		"[core] fsmonitor=/x": true, "[core] fsmonitor=true": false, "[core] fsmonitor": false, "[core] fsmonitor=": false, "[CORE] HooksPath=x": true,
		"[diff \"x.y\"] textconv=a": true, "[diff] textconv=a": false, "[filter \"lfs\"] process=a": true, "[alias] st=!x": true, "[alias \"x\"] command=!y": true,
		"[pager] log=false": false, "[pager] log=evil": true, "[credential] helper=x": true, "[credential \"https://h\"] helper=x": true,
		"[remote \"o\"] url=/srv/x.git": false, "[remote \"o\"] url=git@h:x.git": false, "[remote \"o\"] url=ssh://[::1]/x": false, "[remote \"o\"] url=ext::sh -c x": true,
		"[remote \"o\"] fetch=+a:b": false, "[branch \"m\"] remote=o": false, "[branch \"m\"] merge=refs/heads/m": false, "[branch \"m\"] remote=ext::x": true,
		"[submodule \"s\"] url=/srv/s": false, "[submodule \"s\"] active=true": false, "[submodule \"s\"] update=rebase": false, "[submodule \"s\"] update=!x": true,
		"[core] worktree=../../s": false, "[user] name=x": false, "[include] path=x": true, "[includeIf \"gitdir:x\"] path=y": true, "[protocol \"ext\"] allow=always": true,
		"[protocol \"ext\"] allow=never": false, "[url \"ext::x\"] insteadOf=https://": true, "[sendemail] smtpserver=/x": true, "[sendemail] to=x": false,
		"[sendemail \"i\"] sendmailcmd=x": true, "[merge \"x\"] driver=y": true, "[merge] tool=meld": false, "[mergetool \"x\"] cmd=y": true, "[gpg] program=x": true,
		"[gpg \"ssh\"] program=x": true, "[extensions] worktreeConfig=true": false, "[uploadpack] packObjectsHook=x": true, "[gc] recentObjectsHook=x": true, "[lfs \"customtransfer.x\"] path=y": true,
	} {
		all, err := hostrun.ParseGitConfig([]byte(text))
		require.NoError(t, err, text)
		require.Len(t, all, 1, text)
		name, why, got := all[0].Runs()
		require.Equal(t, want, got, text)
		require.Equal(t, want, why != "", text)
		require.Equal(t, want, strings.EqualFold(name, all[0].Key), text)
	}
}

func TestTheTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range hostrun.Table {
		key := string(r.Base) + " " + r.Path
		require.False(t, seen[key], "two rows for %s", key)
		seen[key] = true
		require.NotEmpty(t, r.Why, key)
		require.True(t, r.Risky || r.Mounted || r.Compared != "", "%s does nothing", key)
		require.Equal(t, filepath.Clean(r.Path), r.Path)
		require.False(t, r.Mounted && r.Compared == "", "%s is read-only where the backend can do that, and compared elsewhere", key)
	}
	require.True(t, seen["git hooks"], "the paths are not what this test takes them for")
	require.NotEmpty(t, hostrun.Rows(hostrun.Worktree))
}

func TestCommandsOfARebase(t *testing.T) {
	require.Equal(t, []string{"exec make test", "x rm -rf ."}, hostrun.TodoCommands([]byte("pick 1 a\n exec make test\nx rm -rf .\n# exec no\nexec\nedit 2 exec\n")))
}
