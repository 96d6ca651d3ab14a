package docker_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.write(t, "read/file", "granted")
		w.write(t, "rest/secret", "canary")
		grants := []string{"--ro", w.path("read"), "--workspace", w.path("work")}
		assert.Equal(t, "granted", w.shell(t, "cat "+w.path("read/file"), grants...))
		o := w.run(t, append(grants, "--", "sh", "-c", "echo x > "+w.path("read/new"))...)
		assert.NotEqual(t, 0, o.code, "a read-only grant is written to")
		o = w.run(t, append(grants, "--", "cat", w.path("rest/secret"))...)
		assert.NotContains(t, o.stdout, "canary", "what is not granted can be read")
		w.shell(t, "pwd > here; mkdir sub; echo y > sub/f", grants...)
		data, err := os.ReadFile(w.path("work/here"))
		require.NoError(t, err)
		assert.Equal(t, w.path("work")+"\n", string(data), "the working directory")
		info, err := os.Stat(w.path("work/sub/f"))
		require.NoError(t, err)
		st := info.Sys().(*syscall.Stat_t)
		assert.Equal(t, []uint32{uint32(w.id), uint32(w.id)}, []uint32{st.Uid, st.Gid}, "whose the file is")
	})
}

func TestTmpIsPrivateAndGone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
			name := filepath.Join(dir, filepath.Base(w.dir))
			assert.Equal(t, "here\n", w.shell(t, "echo here > "+name+"; cat "+name))
			assert.NoFileExists(t, name)
			assert.Equal(t, "0\n", w.shell(t, "ls -A "+dir+" | wc -l"), "%s holds something of a former run", dir)
			w.shell(t, "cp /bin/true "+name+" && "+name)
			o := w.run(t, "--noexec", "--", "sh", "-c", "cp /bin/true "+name+" && "+name)
			assert.Equal(t, 126, o.code, "%s: with --noexec programs run from there", dir)
		}
		assert.NotEqual(t, 0, w.run(t, "--", "touch", "/x").code, "the root is writable")
	})
}

func TestSystemIsTheHostsAndAccountsAreNot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		link, err := os.Readlink("/bin")
		if err == nil {
			assert.Equal(t, link+"\n", w.shell(t, "readlink /bin"), "a symlink is shown as one")
		}
		passwd := w.shell(t, "cat /etc/passwd")
		assert.Equal(t, 2, strings.Count(passwd, "\n"), "%s", passwd)
		assert.Equal(t, "", w.shell(t, "cat /etc/shadow 2>/dev/null || true"))
		if _, err := os.Stat("/usr/bin/perl"); err == nil {
			assert.Equal(t, "42", w.shell(t, "perl -e 'print 6*7'"))
		}
	})
}

// The mount is in the daemon's mount namespace, not in the machine's, and nsrun joins it there.
func TestSubmountsAreShownAndReadOnly(t *testing.T) {
	need(t)
	nsenter, err := exec.LookPath("nsenter")
	require.NoError(t, err, "package util-linux")
	w := newWorld(t, 0)
	w.write(t, "tree/sub/hidden", "")
	within := func(args ...string) outcome {
		cmd := w.command()
		cmd.Path = nsenter
		cmd.Args = append([]string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", built.daemon.Pid()), "--"}, args...)
		cmd.Env = append(w.env, "PATH="+built.path+":/usr/sbin:/usr/bin:/sbin:/bin")
		return finish(t, cmd)
	}
	tree := w.path("tree")
	o := within("sh", "-c", "mount -t tmpfs -o size=64k,mode=0777 tmpfs "+tree+"/sub && echo below > "+tree+"/sub/file")
	require.Equal(t, 0, o.code, o.stderr)
	defer func() { assert.Equal(t, 0, within("umount", tree+"/sub").code) }()
	run := func(args ...string) outcome {
		return within(append([]string{built.nsrun, "run", "--backend", "docker", "--chdir", "/", "--ro", tree, "--"}, args...)...)
	}
	o = run("cat", tree+"/sub/file")
	assert.Equal(t, "below\n", o.stdout, o.stderr)
	assert.NotEqual(t, 0, run("touch", tree+"/sub/new").code, "a mount below a read-only grant is writable")
	assert.NotEqual(t, 0, within("test", "-e", tree+"/sub/new").code)
	w.nothingLeft(t)
}

func TestOddPaths(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, name := range []string{"a b", "a,b", `a"b`, "a'b", "a:b", "a=b", "ro,src=x", "ä", `a\b`, "$HOME", "-v"} {
			file := w.write(t, "odd/"+name+"/file", "found")
			o := w.run(t, "--ro", filepath.Dir(file), "--", "cat", file)
			assert.Equal(t, "found", o.stdout, "%q: %s", name, o.stderr)
		}
		for _, name := range []string{"a\rb", "a\nb", " a", "a "} {
			file := w.write(t, "odd/"+name+"/file", "found")
			if o := w.run(t, "--ro", filepath.Dir(file), "--", "cat", file); o.code != 0 {
				assert.Equal(t, 125, o.code, "%q", name)
				assert.Contains(t, o.stderr, "nsrun: ", "%q", name)
			} else {
				assert.Equal(t, "found", o.stdout, "%q", name)
			}
		}
	})
}

func TestMissingSourceIsNotMade(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		o := w.run(t, "--rw", w.path("work/missing"), "--", "true")
		assert.Equal(t, 125, o.code)
		assert.Contains(t, o.stderr, "no such file")
		assert.NoFileExists(t, w.path("work/missing"))
	})
}
