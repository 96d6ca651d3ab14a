package backend

import (
	"archive/tar"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func viewOf(t *testing.T, ops ...mounts.Op) (*boxView, error) {
	t.Helper()
	var host mounts.Host
	defer host.Close()
	return newBoxView(ops, ContainerCLI{Path: "/docker"}, plan.Identity{HostUID: 5, HostGID: 6}, &host)
}

func TestViewIsCarried(t *testing.T) {
	dir := t.TempDir()
	v, err := viewOf(t,
		mounts.Op{Kind: mounts.Symlink, Dest: "/bin", Source: "usr/bin"},
		mounts.Op{Kind: mounts.Dir, Dest: "/home/user", Mode: 0o700},
		mounts.Op{Kind: mounts.Bind, Dest: "/data/old", Source: dir},
		mounts.Op{Kind: mounts.Bind, Dest: "/data", Source: dir, Flags: plainRead},
		mounts.Op{Kind: mounts.Tmpfs, Dest: "/tmp", Mode: 0o1777, Size: 4096, Inodes: 7, Flags: mounts.Flags{mounts.NoExec}},
		mounts.Op{Kind: mounts.Dir, Dest: "/tmp/sub"},
		mounts.Op{Kind: mounts.Symlink, Dest: "/tmp/link", Source: "sub"},
		mounts.Op{Kind: mounts.File, Dest: "/tmp/file", Data: []byte("x"), Mode: 0o600},
		mounts.Op{Kind: mounts.Dir, Dest: "/data/there"})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"--mount=type=bind,src=" + dir + ",dst=/data,bind-nonrecursive,readonly",
		"--tmpfs=/tmp:rw,nosuid,nodev,noexec,size=4096,uid=5,gid=6,nr_inodes=7,mode=1777",
		"--tmpfs=/sys:ro,nosuid,nodev,exec,size=4096,uid=5,gid=6,mode=755",
		"--tmpfs=/sys/fs/cgroup:ro,nosuid,nodev,exec,size=4096,uid=5,gid=6,mode=755",
	}, v.args, "what is covered is not mounted")
	assert.Equal(t, []made{{Path: "/tmp/sub", Mode: 0o755}, {Path: "/tmp/link", Target: "sub", Mode: 0o755}}, v.late)
	assert.Equal(t, [][]byte{[]byte("x")}, v.files)
	require.Len(t, v.locations, 1)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir, &st))
	assert.Equal(t, Location{"/data", st.Dev, st.Ino}, v.locations[0])

	data, name := v.image()
	assert.Regexp(t, "^nsrun-root:[0-9a-f]{32}$", name)
	var got []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		got = append(got, string(h.Typeflag)+" "+h.Name+" "+h.Linkname+" "+os.FileMode(h.Mode).String())
	}
	assert.Equal(t, []string{"2 bin usr/bin -rwxr-xr-x", "5 home  -rwxr-xr-x", "5 home/user  -rwx------"}, got)
}

func TestViewRefusesWhatAContainerCannotBe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(dir, dir+"/link"))
	for name, ops := range map[string][]mounts.Op{
		"the whole host":               {{Kind: mounts.Bind, Dest: "/", Source: "/usr"}},
		"proc elsewhere":               {{Kind: mounts.Proc, Dest: "/x"}},
		"an overlay":                   {{Kind: mounts.Overlay, Dest: "/x"}},
		"a link in a read-only tmpfs":  {{Kind: mounts.Tmpfs, Dest: "/x", Flags: plainRead}, {Kind: mounts.Symlink, Dest: "/x/y", Source: "z"}},
		"a link in the host's":         {{Kind: mounts.Bind, Dest: "/x", Source: dir}, {Kind: mounts.Symlink, Dest: "/x/y", Source: "z"}},
		"a source behind a symlink":    {{Kind: mounts.Bind, Dest: "/x", Source: dir + "/link"}},
		"a source that does not exist": {{Kind: mounts.Bind, Dest: "/x", Source: dir + "/missing"}},
		"a tmpfs with a colon":         {{Kind: mounts.Tmpfs, Dest: "/x:y"}},
		"a carriage return":            {{Kind: mounts.File, Dest: "/x\ry"}},
		"a long name":                  {{Kind: mounts.Dir, Dest: "/" + strings.Repeat("x", 101)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := viewOf(t, ops...)
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "mount", e.Stage)
			assert.NotEmpty(t, e.Hint)
		})
	}
}

func TestBindIsReadBackAsItWasWritten(t *testing.T) {
	for _, name := range []string{"/a", "/a b", "/a,b", `/a"b`, `/"`, "/a\nb", "/a=b", "/readonly,src=/etc", `/a",dst="/etc`} {
		option := ContainerCLI{}.bind(name, name, true)
		fields, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(option, "--mount="))).Read()
		require.NoError(t, err, option)
		assert.Equal(t, []string{"type=bind", "src=" + name, "dst=" + name, "bind-nonrecursive", "readonly"}, fields)
	}
}

func FuzzBind(f *testing.F) {
	f.Add(`/a",dst="/etc`, "/b")
	f.Fuzz(func(t *testing.T, source, dest string) {
		c := ContainerCLI{}
		if c.speakable(source) != nil || c.speakable(dest) != nil {
			return
		}
		fields, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(c.bind(source, dest, false), "--mount="))).Read()
		require.NoError(t, err)
		assert.Equal(t, []string{"type=bind", "src=" + source, "dst=" + dest, "bind-nonrecursive"}, fields)
	})
}

// What a backend mounts is looked at again by pid 1: a name may have come to lead elsewhere.
func TestPid1FindsAnotherFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, errors.Join(os.Mkdir(dir+"/a", 0o755), os.Mkdir(dir+"/b", 0o755), os.Symlink("a", dir+"/link")))
	st, err := statNoLinks(dir + "/a")
	require.NoError(t, err)
	at := func(name string) *Error {
		p := &pid1{request: containerRequest{RemoteRequest: RemoteRequest{Locations: []Location{{dir + name, st.Dev, st.Ino}}}}}
		return p.ready()
	}
	assert.Nil(t, at("/a"))
	require.NotNil(t, at("/b"))
	assert.Contains(t, at("/b").Err.Error(), "something else is there")
	require.NotNil(t, at("/link"), "the same place by way of a symlink")
	require.NotNil(t, at("/missing"))
}

func TestWhatClientsPrint(t *testing.T) {
	for text, want := range map[string]string{
		"docker: Error response from daemon: no such thing.\nSee 'docker run --help'.\n": "no such thing",
		"docker: invalid argument\n\nRun 'docker run --help' for more information\n":     "invalid argument",
		"WARNING: no swap\n": "docker: why",
		"":                   "docker: why",
	} {
		assert.EqualError(t, ContainerCLI{}.lastError([]byte(text), errors.New("why")), want)
	}
	assert.EqualError(t, ContainerCLI{Podman: true}.lastError([]byte("Error: crun: no\n"), errors.New("why")), "crun: no")
}

func TestFindContainerCLI(t *testing.T) {
	bin := t.TempDir()
	write := func(name, script string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", bin+":.")
	_, err := FindContainerCLI()
	require.ErrorIs(t, err, ErrNoContainerCLI)
	write("docker", "echo 20.10")
	c, err := FindContainerCLI()
	require.NoError(t, err)
	assert.Equal(t, ContainerCLI{bin + "/docker", false}, c)
	write("docker", "echo docker: is it running? >&2; exit 1")
	_, err = FindContainerCLI()
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "is it running?", e.Err.Error())
	assert.NotEmpty(t, e.Hint)
	write("podman", "exit 0")
	c, err = FindContainerCLI()
	require.NoError(t, err)
	assert.True(t, c.Podman, "a daemon that does not answer, and Podman")
	t.Setenv("DOCKER_HOST", "unix:///nowhere")
	_, err = FindContainerCLI()
	require.Error(t, err, "a daemon was named")
	write("docker", "/bin/sleep 20")
	_, err = FindContainerCLI()
	require.ErrorIs(t, err, errNoAnswer)
	write("docker", "exec podman \"$@\"")
	c, err = FindContainerCLI()
	require.NoError(t, err)
	assert.Equal(t, ContainerCLI{bin + "/docker", true}, c, "podman-docker")
}

func TestSweeperRemovesWhatIsLeft(t *testing.T) {
	fds := openFDs(t)
	dir := t.TempDir() + "/private"
	require.NoError(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/file0", []byte("x"), 0o600)))
	s, err := newSweeper(dir, []string{dir + "/channel", dir + "/file0"})
	require.NoError(t, err)
	client, err := unix.FcntlInt(s.lifeline.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	assert.FileExists(t, dir+"/file0", "while this process lives")
	require.NoError(t, s.lifeline.Close()) // as if it were killed
	time.Sleep(50 * time.Millisecond)
	assert.FileExists(t, dir+"/file0", "while the client lives")
	require.NoError(t, unix.Close(client))
	_, err = unix.Wait4(s.pid, nil, 0, nil)
	require.NoError(t, errors.Join(err, unix.Close(s.pidfd)))
	assert.NoDirExists(t, dir)
	assert.Equal(t, fds, openFDs(t))
}

func TestSweeperIsReleased(t *testing.T) {
	fds := openFDs(t)
	s, err := newSweeper(t.TempDir(), nil)
	require.NoError(t, err)
	client, err := unix.FcntlInt(s.lifeline.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	s.end() // and does not wait for the client
	require.NoError(t, unix.Close(client))
	assert.Equal(t, fds, openFDs(t))
	assert.Empty(t, children(t, "self"))
}
