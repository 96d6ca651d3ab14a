package backend_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// private runs a test with the backend landlock as each user.
func private(t *testing.T, test func(t *testing.T, b box)) {
	users(t, func(t *testing.T, w *world) { test(t, newBox(t, w, "landlock", []string{"--backend", "landlock"})) })
}

// own lists the private directories of the user's runs.
func (b box) own(t *testing.T) (names []string) {
	t.Helper()
	names, err := filepath.Glob(b.home + "/.local/state/nsrun/run/*")
	require.NoError(t, err)
	return names
}

// TestPrivateHomeByLandlock: HOME and TMPDIR are a directory of the run's own, where programs can be built and run; the host's are closed; the next run
// finds nothing, and nothing is left.
func TestPrivateHomeByLandlock(t *testing.T) {
	private(t, func(t *testing.T, b box) {
		b.write(t, b.home+"/granted", "granted")
		again := b.do(t, nil, "sh", "-c", `cat "$HOME/secret" && ls "$HOME" && ls /tmp`)
		require.Zero(t, again.code, "control: %v", again)
		const script = `set -e; ls -A ~; cp /bin/true ~/built; ~/built; cp /bin/true $TMPDIR/tool; $TMPDIR/tool; echo x >~/.rc; mkdir -p ~/.cache/a; stat -c %a ~; cat ~/granted; echo; echo $HOME`
		e := b.run(t, b.shown("--ro", b.home+"/granted"), "sh", "-c", script)
		lines := strings.Split(e.stdout, "\n")
		require.Len(t, lines, 6, e)
		assert.Equal(t, []string{"granted", "work", "700", "granted"}, lines[:4], "it has links to what is granted in the host's, and no more\n%v", e)
		assert.NoDirExists(t, lines[4], "it is gone")
		for _, act := range []string{"cat " + b.secret, "ls " + b.home, "touch " + b.home + "/made", "ls /tmp", "touch /tmp/" + b.mark, "ls " + filepath.Dir(lines[4])} {
			e := b.run(t, b.shown(), "sh", "-c", act)
			assert.NotZero(t, e.code, act)
			assert.Contains(t, e.stderr, "Permission denied", act)
		}
		e = b.run(t, []string{"--noexec"}, "sh", "-c", "ls -A ~; cp /bin/true ~/built; ~/built")
		assert.Empty(t, strings.TrimPrefix(e.stdout, "work\n"), "nothing of the first run")
		assert.Equal(t, 126, e.code, "noexec: %v", e)
		e = b.run(t, []string{"--home", "none"}, "sh", "-c", "ls -A ~; touch $TMPDIR/file && ! touch ~/file")
		assert.Zero(t, e.code, e)
		assert.Empty(t, strings.TrimPrefix(e.stdout, "work\n"), "a link to the directory that it starts in, and no more")
		e = b.run(t, []string{"--workspace", b.work, "--home", "keep"}, "sh", "-c", "echo kept >~/file; touch $TMPDIR/file")
		assert.Zero(t, e.code, e)
		e = b.run(t, []string{"--workspace", b.work, "--home", "keep"}, "sh", "-c", "cat ~/file; ls -A $TMPDIR")
		assert.Equal(t, "kept\n", e.stdout, e)
		e = b.run(t, []string{"--home", b.work}, "sh", "-c", "touch ~/file; echo $HOME")
		assert.Equal(t, b.work+"\n", e.stdout, e)
		assert.FileExists(t, b.work+"/file")
		e = b.run(t, []string{"-e", "XDG_CACHE_HOME=" + b.home + "/.cache"}, "sh", "-c", `test "$XDG_CACHE_HOME" = "$HOME/.cache" && mkdir "$XDG_CACHE_HOME"`)
		assert.Zero(t, e.code, e)
		assert.Empty(t, b.own(t), "nothing is left")
	})
}

// TestPrivateHomeOfAKilledRun: the next run removes it, whatever is in it, and neither follows a link nor touches that of a run that goes on.
func TestPrivateHomeOfAKilledRun(t *testing.T) {
	private(t, func(t *testing.T, b box) {
		b.mkdir(t, b.work+"/outside")
		b.write(t, b.work+"/outside/file", "survives")
		const deep = `i=0; while [ $i -lt 300 ]; do mkdir dddd; cd dddd; i=$((i+1)); done; mkdir closed; chmod 0 closed`
		s := b.start(t, b.shown(), "sh", "-c", `cd ~; ln -s "$0/outside" link; mkdir -p a/b; touch a/b/f; ln -s "$0/outside" a/b/link; chmod 0 a/b; chmod 500 a; `+deep+`; echo ready; exec sleep 1000`, b.work)
		s.wait(t, "ready")
		alive := b.start(t, nil, "sh", "-c", `touch ~/file; echo ready; exec sleep 1000`)
		alive.wait(t, "ready")
		require.Len(t, b.own(t), 2)
		require.NoError(t, s.cmd.Process.Kill())
		s.end(t)
		require.Len(t, b.own(t), 2, "control: nobody has removed it")
		testenv.Eventually(t, func() bool { // the processes of the killed run hold its lock until they have ended
			e := b.run(t, nil, "true")
			return assert.Zero(t, e.code, e) && len(b.own(t)) == 1
		}, "the removal of what the killed run has left")
		assert.FileExists(t, b.own(t)[0]+"/file", "a run that goes on keeps its own")
		assert.FileExists(t, b.work+"/outside/file", "no link is followed")
		require.NoError(t, alive.cmd.Process.Signal(unix.SIGTERM))
		alive.end(t)
		assert.Empty(t, b.own(t))
	})
}

// TestNoPlaceForAPrivateHome: a directory of state that is full, read-only, of another user or granted is an error that names the variable.
func TestNoPlaceForAPrivateHome(t *testing.T) {
	private(t, func(t *testing.T, b box) {
		other := "/" // root's
		if b.uid == 0 {
			other = b.world.run + "/others"
			require.NoError(t, os.Mkdir(other, 0o755))
			require.NoError(t, os.Chown(other, nobodyElse, nobodyElse))
		}
		b.write(t, b.home+"/file", "")
		places := map[string]string{other: "belongs to user", b.home + "/file": "not a directory", b.work: "lies in " + b.work}
		if os.Getuid() == 0 { // in mount namespaces of its own
			owned := fmt.Sprintf("mode=700,uid=%d", b.uid)
			for options, want := range map[string]string{owned + ",nr_inodes=1": "no space left on device", owned: "read-only file system"} {
				at := fmt.Sprintf("%s/state%d", b.world.run, len(places))
				b.mkdir(t, at)
				require.NoError(t, unix.Mount("tmpfs", at, "tmpfs", 0, options))
				t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
				if options == owned {
					require.NoError(t, unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
				}
				places[at] = want
			}
		}
		in := func(state string) ending {
			return b.do(t, b.change(func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_STATE_HOME="+state) }), b.words(b.shown(), "echo", "ran")...)
		}
		b.mkdir(t, b.home+"/state")
		require.Equal(t, "ran\n", in(b.home+"/state").stdout, "control")
		for place, want := range places {
			e := in(place)
			assert.Equal(t, 125, e.code, "%s: %v", place, e)
			assert.Empty(t, e.stdout)
			assert.Contains(t, e.stderr, want, place)
			assert.Contains(t, e.stderr, "XDG_STATE_HOME", place)
		}
	})
}
