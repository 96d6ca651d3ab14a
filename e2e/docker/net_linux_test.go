package docker_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNetwork(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		own := w.command()
		own.Path, own.Args = built.probe, []string{built.probe, "connect", "tcp", l.Addr().String()}
		require.Equal(t, "connected\n", finish(t, own).stdout, "the listener can be reached without a sandbox")
		assert.Equal(t, "lo\n", w.probe(t, "interfaces").stdout)
		assert.Contains(t, w.probe(t, "connect", "tcp", l.Addr().String()).stdout, "refused")
		w.args = append(w.args, "--net", "host")
		assert.Equal(t, "connected\n", w.probe(t, "connect", "tcp", l.Addr().String()).stdout)
	})
}

// The connection between nsrun and pid 1 is not the command's: not by its name, not by pid 1.
func TestChannelIsNotTheCommands(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, flags := range [][]string{nil, {"--no-landlock"}} {
			w := *w
			w.args = append(w.args[:len(w.args):len(w.args)], flags...)
			o := w.probe(t, "connect", "unixpacket", "/.nsrun-channel")
			assert.Regexp(t, "refused|denied", o.stdout, "%v: %s", flags, o.stderr)
			for _, try := range []string{"cat /proc/1/mem", "cat /proc/1/environ", "cat /proc/1/maps", "readlink /proc/1/exe", "ls /proc/1/cwd/",
				"for f in /proc/1/fd/*; do readlink $f && exit; done; exit 1"} {
				assert.NotEqual(t, 0, w.run(t, "--", "sh", "-c", try).code, "%v: %s", flags, try)
			}
			assert.NotEqual(t, 0, w.run(t, "--", "sh", "-c", ": > /.nsrun").code, "nsrun's binary is writable")
			assert.NotEqual(t, 0, w.run(t, "--", "/.nsrun", "container-init").code)
		}
	})
}

func TestPid1IsNotKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		o := w.run(t, "--", "sh", "-c", "kill -9 1; kill -15 1; kill -2 1; kill -3 1; kill -10 1; sleep 0.2; exit 6")
		assert.Equal(t, 6, o.code, o.stderr)
		w.args = append(w.args, "--no-landlock") // whose scope keeps signals in
		o = w.run(t, "--", "sh", "-c", "kill -9 1; kill -15 1; kill -2 1; kill -3 1; kill -10 1; kill -14 1; sleep 0.2; exit 6")
		assert.Equal(t, 6, o.code, o.stderr)
	})
}

func TestDeadDaemon(t *testing.T) {
	for name, listen := range map[string]bool{"no socket": false, "a socket that never answers": true} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				socket := filepath.Join(w.dir, "s")
				if listen {
					l, err := net.Listen("unix", socket)
					require.NoError(t, err)
					defer l.Close()
					require.NoError(t, os.Chmod(socket, 0o777))
				}
				w.env = append(w.env[:len(w.env)-1:len(w.env)-1], "DOCKER_HOST=unix://"+socket)
				o := w.run(t, "--", "true")
				assert.Equal(t, 125, o.code)
				assert.Contains(t, o.stderr, "nsrun: ")
				assert.Regexp(t, "hint: |start ", o.stderr, "one action that helps")
				assert.Empty(t, clients(w.dir), "a client is left")
			})
		})
	}
}

// A daemon elsewhere would show its own files, not this machine's.
func TestOtherUsersContainerIsRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		bin := filepath.Join(w.dir, "fake")
		require.NoError(t, errors.Join(os.Mkdir(bin, 0o755), os.Chmod(bin, 0o755)))
		script := "#!/bin/sh\nfor a; do shift; case $a in --user=*) a=--user=4242:4242;; esac; set -- \"$@\" \"$a\"; done\nexec " + built.path + "/docker \"$@\"\n"
		require.NoError(t, os.WriteFile(bin+"/docker", []byte(script), 0o755))
		w.env[0] = "PATH=" + bin + ":/usr/bin:/bin"
		o := w.run(t, "--", "true")
		assert.Equal(t, 125, o.code)
		assert.Contains(t, o.stderr, "4242")
	})
}

func TestProtectedFiles(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.path("work/result.json")
		o := w.run(t, "--result", name, "--rw", w.path("work"), "--", "true")
		assert.Equal(t, 125, o.code)
		assert.Contains(t, o.stderr, "writable")
	})
}

func TestDirectoryAsStandardInput(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		dir, err := os.Open("/")
		require.NoError(t, err)
		defer dir.Close()
		cmd := w.command("--", "true")
		cmd.Stdin = dir
		assert.Equal(t, 125, finish(t, cmd).code)
	})
}

// By way of /dev/null, root's sandbox could change the mode of the host's.
func TestNullIsTheContainers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var st syscall.Stat_t
		require.NoError(t, syscall.Stat("/dev/null", &st))
		o := w.run(t, "--", "sh", "-c", "stat -L -c %d /proc/self/fd/0") // standard input is /dev/null
		assert.Equal(t, 0, o.code, o.stderr)
		assert.NotEqual(t, strconv.FormatUint(st.Dev, 10), strings.TrimSpace(o.stdout))
	})
}
