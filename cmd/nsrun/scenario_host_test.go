package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// scene is where a scenario runs: a copy of its directory, an nsrun on PATH that marks what it starts, and what was there before.
type scene struct {
	dir, tmp string
	nsrun    string // what PATH has
	env      []string
	mark     string
	files    map[string]string
	groups   []string
	canary   *canary
	running  sync.WaitGroup
}

func newScene(t *testing.T, dir string) *scene {
	t.Helper()
	exe, err := exec.LookPath("nsrun")
	require.NoError(t, err)
	s := &scene{dir: t.TempDir(), tmp: t.TempDir(), mark: fmt.Sprintf("NSRUN_MARK=%d-%d", os.Getpid(), time.Now().UnixNano())}
	require.NoError(t, os.CopyFS(s.dir, os.DirFS(dir)))
	t.Cleanup(func() { // of a scenario that has failed
		for pid := range s.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	bin := t.TempDir()
	// The rules passive refuse a variable that acts on nsrun, so a run by these has no mark.
	script := fmt.Sprintf("#!/bin/sh\nverb=$1\nshift\ncase \"$verb $*\" in\n*' passive '*) ;;\nrun*) set -- --setenv %s $NSRUN_TEST_FLAGS \"$@\" ;;\nesac\n"+
		"exec '%s' \"$verb\" \"$@\"\n", s.mark, exe)
	s.nsrun = filepath.Join(bin, "nsrun")
	require.NoError(t, os.WriteFile(s.nsrun, []byte(script), 0o755))
	s.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+s.tmp, "NSRUN=", "XDG_STATE_HOME="+t.TempDir(), "LC_ALL=C", "PYTHONDONTWRITEBYTECODE=1", s.mark)
	s.files, s.groups, s.canary = contents(t, s.dir), sandboxGroups(), newCanary(t)
	return s
}

// types runs a line in a shell of its own and returns what it has printed on either stream.
func (s *scene) types(t *testing.T, line string) (stdout, stderr string) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Limit(0))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env, testenv.Limit(0)
	var out, written bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &written
	err := cmd.Run()
	assert.NoError(t, ctx.Err(), "$ %s: ends in time", line)
	assert.NotErrorIs(t, err, exec.ErrWaitDelay, "$ %s: nobody holds its output", line)
	return out.String(), written.String()
}

// asItWas establishes that nothing of a scenario is left, and that it has not touched anything else.
func (s *scene) asItWas(t *testing.T) {
	t.Helper()
	s.nothingRuns(t)
	assert.Equal(t, s.files, contents(t, s.dir), "no file has come, gone or changed")
}

// nothingRuns establishes that a scenario has left no process, cgroup or temporary file, and no harm to a process of the host.
func (s *scene) nothingRuns(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() bool { return len(s.processes()) == 0 }, "the end of all processes")
	// Tests of other packages make and remove groups there, too: each that has come has to go, not all of them to be gone at once.
	for _, g := range sandboxGroups() {
		if !slices.Contains(s.groups, g) {
			isGone := func() bool { _, err := os.Stat(g); return err != nil }
			testenv.Eventually(t, isGone, g+" to be removed")
		}
	}
	assert.Empty(t, contents(t, s.tmp), "no file is left in TMPDIR")
	assert.True(t, s.canary.sings(), "a process of the host's lives")
	nothingLeft(t)
}

// processes are the command lines of those that have the mark, within a sandbox or not.
func (s *scene) processes() map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(s.mark)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			found[pid] = string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
	return found
}

// sandboxGroups lists the cgroups of sandboxes that there are, of other tests' too.
func sandboxGroups() (names []string) {
	for _, g := range probe.Quick().Groups {
		found, _ := filepath.Glob(filepath.Join(g.Dir, "nsrun-*"))
		names = append(names, found...)
	}
	return names
}

// contents reads all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if files[path] = entry.Type().String(); entry.Type().IsRegular() {
			data, err := os.ReadFile(path)
			files[path] = string(data)
			return err
		}
		return nil
	}))
	return files
}

// canary is a process of the host's that answers for as long as it lives.
type canary struct {
	in  *os.File
	out *bufio.Reader
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	cmd := exec.Command("cat")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	theirs, ours, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin = theirs
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	t.Cleanup(func() { assert.NoError(t, ours.Close()); assert.NoError(t, cmd.Wait()) })
	return &canary{ours, bufio.NewReader(stdout)}
}

func (c *canary) sings() bool {
	if _, err := c.in.WriteString("alive\n"); err != nil {
		return false
	}
	line, err := c.out.ReadString('\n')
	return err == nil && line == "alive\n"
}

// TestScenariosWouldSeeWhatIsLeft is the positive control: a process in a sandbox bears the mark.
func TestScenariosWouldSeeWhatIsLeft(t *testing.T) {
	needSandbox(t)
	s := newScene(t, "../../examples/executor")
	cmd := exec.Command("sh", "-c", "exec nsrun run -- sleep 1000")
	cmd.Env = s.env
	require.NoError(t, cmd.Start())
	sleeps := func() bool {
		lines := slices.Collect(maps.Values(s.processes()))
		return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "sleep 1000") })
	}
	testenv.Eventually(t, sleeps, "it is seen")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	s.asItWas(t)
}
