package docker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// podmanConf is Podman's configuration for a store of the test's own.
const podmanConf = `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "%s"
tmp_dir = "%s/tmp"
static_dir = "%s/static"
volume_path = "%s/volumes"
[network]
network_config_dir = "%s/net"
`

const podmanStorage = `[storage]
driver = "vfs"
graphroot = "%s/root"
runroot = "%s/run"
`

// podmanWorld is a world whose engine is Podman, with the runtime that works here.
func podmanWorld(t *testing.T) (w *world, podman func(args ...string) (string, error)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("Podman is tried as root: a user's takes subordinate ids, which this test does not hand out")
	}
	at, err := exec.LookPath("podman")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("podman is not installed, and CI must have it")
	} else if err != nil {
		t.Skip("podman is not installed")
	}
	dir, err := os.MkdirTemp(built.room, "p")
	require.NoError(t, err)
	w = &world{dir: dir, args: []string{"run", "--backend", "docker"}, own: true}
	for _, name := range []string{"tmp", "work", "home", "path", "store/net"} {
		require.NoError(t, os.MkdirAll(w.path(name), 0o755))
	}
	require.NoError(t, os.Symlink(at, w.path("path/podman")))
	store := w.path("store")
	w.env = []string{"PATH=" + w.path("path") + ":/usr/sbin:/sbin", "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "LANG=C.UTF-8",
		"CONTAINERS_CONF=" + store + "/containers.conf", "CONTAINERS_STORAGE_CONF=" + store + "/storage.conf"}
	require.NoError(t, os.WriteFile(store+"/storage.conf", fmt.Appendf(nil, podmanStorage, store, store), 0o644))
	podman = func(args ...string) (string, error) {
		ctx, stop := context.WithTimeout(context.Background(), testenv.Limit(0))
		defer stop()
		cmd := exec.CommandContext(ctx, at, args...)
		cmd.Env = append(w.env[:len(w.env):len(w.env)], "PATH="+os.Getenv("PATH"))
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	groups := podmanGroups()
	t.Cleanup(func() {
		// Podman 4.3 waits long for a conmon that it does not see end; what it is to wait for is gone.
		for _, name := range processes(w.path("path/podman"), "run", "--name=nsrun-") {
			var pid int
			if _, err := fmt.Sscanf(name, "/proc/%d/", &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		text, err := podman("rm", "--force", "--all")
		assert.NoError(t, err, text)
		for _, group := range podmanGroups() {
			if !slices.Contains(groups, group) {
				_ = syscall.Rmdir(group) // the innermost come first; one that is in use stays
			}
		}
		// What conmon starts to clean up may still write there.
		for until := time.Now().Add(testenv.Limit(0)); ; time.Sleep(50 * time.Millisecond) {
			if err := os.RemoveAll(dir); err == nil || time.Now().After(until) {
				assert.NoError(t, err)
				return
			}
		}
	})
	var said []string
	for _, runtime := range []string{"crun", "runc"} {
		require.NoError(t, os.WriteFile(store+"/containers.conf", fmt.Appendf(nil, podmanConf, runtime, store, store, store, store), 0o644))
		o := w.run(t, "--", "true")
		if o.code == 0 {
			t.Logf("podman with %s", runtime)
			return w, podman
		}
		said = append(said, runtime+": "+strings.TrimSpace(o.stderr))
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("podman cannot run a container here:\n%s", strings.Join(said, "\n"))
	}
	t.Skipf("podman cannot run a container here:\n%s", strings.Join(said, "\n"))
	return nil, nil
}

// podmanGroups lists Podman's control groups, the innermost first.
func podmanGroups() (found []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/libpod_parent", "/sys/fs/cgroup/*/libpod_parent"} {
		for _, below := range []string{"/*/*", "/*", ""} {
			names, _ := filepath.Glob(pattern + below)
			for _, name := range names {
				if info, err := os.Lstat(name); err == nil && info.IsDir() {
					found = append(found, name)
				}
			}
		}
	}
	return found
}

func TestPodman(t *testing.T) {
	w, podman := podmanWorld(t)
	t.Run("files", func(t *testing.T) {
		w.write(t, "read/file", "granted")
		w.shell(t, "cat "+w.path("read/file")+" > out; test ! -w "+w.path("read/file"), "--ro", w.path("read"), "--workspace", w.path("work"))
		data, err := os.ReadFile(w.path("work/out"))
		require.NoError(t, err)
		assert.Equal(t, "granted", string(data))
	})
	t.Run("confinement", func(t *testing.T) {
		out := w.shell(t, "cat /proc/self/status; ls /sys; cat /proc/kallsyms; env; cat /etc/passwd")
		for _, want := range []string{"CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "root:x:0:0"} {
			assert.Contains(t, out, want)
		}
		assert.NotContains(t, out, "container=podman")
		assert.Equal(t, "lo\n", w.probe(t, "interfaces").stdout)
	})
	t.Run("status and streams", func(t *testing.T) {
		cmd := w.command("--", "sh", "-c", "cat; echo err >&2; kill -9 $$")
		cmd.Stdin = strings.NewReader("in")
		o := finish(t, cmd)
		assert.Equal(t, outcome{137, "in", "err\n"}, o)
	})
	t.Run("nothing is left", func(t *testing.T) {
		testenv.Eventually(t, func() bool {
			text, err := podman("ps", "--all", "--quiet")
			require.NoError(t, err, text)
			return text == ""
		}, "no container")
		testenv.Eventually(t, func() bool {
			left, err := filepath.Glob(w.path("tmp/nsrun-*"))
			require.NoError(t, err)
			return len(left) == 0
		}, "no private directory")
		testenv.Eventually(t, func() bool { return len(clients(w.dir)) == 0 }, "no client")
	})
	t.Run("killed", func(t *testing.T) {
		sleep := number(w, 4)
		cmd := w.command("--", "sleep", sleep)
		require.NoError(t, cmd.Start())
		testenv.Eventually(t, func() bool { return len(sleepers(sleep)) > 0 }, "the command runs")
		left, err := filepath.Glob(w.path("tmp/nsrun-*"))
		require.NoError(t, err)
		assert.Empty(t, left, "the private directory is there while the command runs")
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		testenv.Eventually(t, func() bool { return len(sleepers(sleep)) == 0 }, "the command is gone")
	})
}
