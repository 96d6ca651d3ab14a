package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// setupCases are attempts to lead the set-up itself astray, by what an earlier run could have left behind.
func setupCases() []attackCase {
	return []attackCase{
		{id: "ST01", what: "have a mount point made through a planted symlink", test: plantedDirectory},
		{id: "ST02", what: "have a file mounted through a planted symlink", test: plantedFile},
		{id: "ST03", what: "mount on a symlink", test: symlinkDestination},
		{id: "ST04", what: "replace a persisted directory by a symlink between runs", test: replacedBetweenRuns},
		{id: "ST05", what: "have a hint lead through a symlink that the command controls", test: hintThroughSymlink},
		{id: "ST06", what: "swap a granted directory for a symlink during set-up", test: swapRace},
		{id: "ST09", what: "use something else than /dev/null as a mask", test: falseNull},
		{id: "ST11", what: "have the maps written to what only looks like procfs", test: falseProc},
		{id: "ST12", what: "run nsrun set-uid", only: "user", test: setUID},
		{id: "ST13", what: "find stubs in the workspace after success or failure", test: noStubs},
		{id: "ST14", what: "name a program like a flag", test: dashedNames},
		{id: "ST15", what: "make the working directory of a request writable", test: requestedDirectory},
	}
}

// manifest writes one into the user's directory of temporary files, which no sandbox sees.
func (w *world) manifest(t *testing.T, content map[string]any) string {
	t.Helper()
	data, err := json.Marshal(content)
	require.NoError(t, err)
	name := filepath.Join(w.run, "manifest.json")
	w.write(t, name, string(data))
	return name
}

// byManifest runs a shell script, or the probe, under a manifest.
func (w *world) byManifest(t *testing.T, content map[string]any, command ...string) ending {
	t.Helper()
	return w.do(t, nil, append([]string{built.nsrun, "run", "--manifest", w.manifest(t, content), "--"}, command...)...)
}

// refusal asserts that nsrun did not start the command, and said why.
func refusal(t *testing.T, e ending, text string) {
	t.Helper()
	assert.Equal(t, 125, e.code, "nsrun refuses\n%v", e)
	assert.Empty(t, e.stdout, "the command has not run")
	assert.Contains(t, e.stderr, text)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries, "nothing is made in %s", dir)
}

// CVE-2026-87766.
func plantedDirectory(t *testing.T, w *world) {
	victim := w.home + "/other"
	w.symlink(t, victim, w.grant+"/link")
	for _, at := range []string{w.grant + "/link/new", w.grant + "/link/new/deeper"} {
		e := w.byManifest(t, map[string]any{"extra_ro": []string{w.grant}, "workspace": w.work, "workspace_at": at}, "echo", "ran")
		refusal(t, e, "link")
		empty(t, victim)
	}
	e := w.byManifest(t, map[string]any{"extra_ro": []string{w.grant}, "workspace": w.work, "workspace_at": w.grant + "/new"}, "echo", "ran")
	refusal(t, e, "nothing is created there")
	e = w.do(t, nil, built.nsrun, "run", "--rw", w.grant, "--ro", w.grant+"/link/new", "--", "echo", "ran")
	refusal(t, e, "could have planted")
	empty(t, victim)
}

func plantedFile(t *testing.T, w *world) {
	victim := w.home + "/other"
	w.write(t, victim+"/file", "host\n")
	w.symlink(t, victim, w.grant+"/link")
	// Named by the operator's own flag, the link is followed to its source; its place is not made through the link.
	e := w.do(t, nil, built.nsrun, "run", "--rw", w.grant, "--ro", w.grant+"/link/file", "--", "echo", "ran")
	refusal(t, e, "symlink")
	e = w.byManifest(t, map[string]any{"extra_rw": []string{w.grant}, "extra_ro": []string{w.grant + "/link/file"}}, "echo", "ran")
	refusal(t, e, "symlink")
	entries, err := os.ReadDir(victim)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	holds(victim+"/file", "host\n")(t, w)
}

func symlinkDestination(t *testing.T, w *world) {
	w.symlink(t, w.home+"/other", w.grant+"/link")
	e := w.byManifest(t, map[string]any{"extra_ro": []string{w.grant}, "workspace": w.work, "workspace_at": w.grant + "/link"}, "echo", "ran")
	refusal(t, e, "symlink")
}

// CVE-2024-42472.
func replacedBetweenRuns(t *testing.T, w *world) {
	state := w.work + "/state"
	w.mkdir(t, state)
	e := w.byManifest(t, map[string]any{"workspace": w.work}, "sh", "-c", "rmdir state && ln -s "+filepath.Dir(w.secret)+" state && echo replaced")
	require.Equal(t, "replaced\n", e.stdout, "the first run can do that to its own workspace\n%v", e)
	e = w.byManifest(t, map[string]any{"workspace": w.work, "extra_ro": []string{state}}, "cat", state+"/id_canary")
	refusal(t, e, "symlink")
	// What the workspace shows already is not mounted again; then the link leads nowhere. So it does for the operator's own flags.
	e = w.byManifest(t, map[string]any{"workspace": w.work, "extra_rw": []string{state}}, "cat", state+"/id_canary")
	assert.NotContains(t, e.stdout, w.canary, "%v", e)
	for _, flag := range []string{"--ro", "--rw"} {
		e = w.in(t, []string{flag, state}, "cat", state+"/id_canary")
		assert.NotContains(t, e.stdout, w.canary, "%s: a link that the workspace holds does not widen the grant\n%v", flag, e)
	}
	holds("{secret}", w.canary)(t, w)
}

// CVE-2026-34078.
func hintThroughSymlink(t *testing.T, w *world) {
	w.symlink(t, filepath.Dir(w.secret), w.work+"/notes")
	for _, mode := range []string{"read", "write"} {
		content := map[string]any{"workspace": w.work, "capabilities": []any{map[string]any{"kind": "fs", "mode": mode, "hints": []string{w.work + "/notes/**"}}}}
		one := w.byManifest(t, content, "cat", w.work+"/notes/id_canary")
		content["capabilities"] = []any{map[string]any{"kind": "fs", "mode": mode, "hints": []string{w.work + "/notes/id_canary"}}}
		two := w.byManifest(t, content, "cat", w.work+"/notes/id_canary")
		for _, e := range []ending{one, two} {
			assert.NotContains(t, e.stdout, w.canary, "%s\n%v", mode, e)
			if mode == "read" { // to write is what the workspace grants already; nothing is mounted for it
				refusal(t, e, "symlink")
			}
		}
	}
}

// swapRace exchanges a granted directory and a symlink to the secrets as fast as it can, while nsrun looks at it and mounts it.
func swapRace(t *testing.T, w *world) {
	dir, link := w.work+"/dir", w.work+"/link"
	w.symlink(t, filepath.Dir(w.secret), link)
	manifest := w.manifest(t, map[string]any{"workspace": w.work, "extra_ro": []string{dir}})
	end := make(chan struct{})
	var swaps int
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				assert.NoError(t, unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE))
				swaps++
			}
		}
	})
	ran, refusals := 0, 0
	for i := range testenv.Times(300) {
		flags := []string{"--manifest", manifest}
		if i%3 != 0 { // the looser way: what the operator types is followed, but not to two places
			flags = []string{"--workspace", w.work, "--ro", dir}
		}
		words := append(append([]string{built.nsrun, "run"}, flags...), "--", "cat", dir+"/id_canary", dir+"/inner")
		e := w.do(t, nil, words...)
		if assert.NotContains(t, e.stdout, w.canary, "try %d: the secret is not shown\n%v", i, e); e.code == 125 {
			refusals++
		} else {
			ran++
		}
		if t.Failed() {
			break
		}
	}
	close(end)
	swapper.Wait()
	t.Logf("%d runs, %d refusals, %d swaps", ran, refusals, swaps)
	assert.Greater(t, swaps, 200, "there was a race")
}

// inHost runs nsrun on a host that the probe changes first, in a namespace.
func (w *world) inHost(t *testing.T, change, place string, command ...string) ending {
	t.Helper()
	words := append([]string{built.probe, "namespace", change, place}, w.nsrun(nil, command...)...)
	e := w.do(t, nil, words...)
	word, rest := verdict(e)
	need(t, word != "NA", "a namespace to change the host in: "+rest)
	return e
}

// CVE-2025-31133.
func falseNull(t *testing.T, w *world) {
	refusal(t, w.inHost(t, "null", w.grant+"/file", "echo", "ran"), "/dev/null")
	holds("{grant}/file", "granted\n")(t, w)
}

// CVE-2025-52881.
func falseProc(t *testing.T, w *world) {
	refusal(t, w.inHost(t, "proc", "-", "echo", "ran"), "procfs")
}

// setUID makes a copy of nsrun that belongs to root and is set-uid, which takes root; an ordinary user can only make it its own.
func setUID(t *testing.T, w *world) {
	if os.Getuid() != 0 { // no part of the host is missing: the run as root tries it
		t.Skip("only root can make a set-uid program of another user")
	}
	data, err := os.ReadFile(built.nsrun)
	require.NoError(t, err)
	for _, mode := range []os.FileMode{os.ModeSetuid | 0o755, os.ModeSetgid | 0o755} {
		name := filepath.Join(built.room, "bin", "set-id")
		require.NoError(t, os.WriteFile(name, data, 0o755))
		require.NoError(t, os.Chmod(name, mode))
		refusal(t, w.do(t, nil, name, "run", "--", "echo", "ran"), "set-uid")
		require.NoError(t, os.Remove(name))
	}
}

// tree is a digest of names, modes, targets and contents below a directory.
func tree(t *testing.T, dirs ...string) string {
	t.Helper()
	h := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(h, name, info.Mode(), info.Size(), info.ModTime().UnixNano())
			if info.Mode().IsRegular() {
				data, err := os.ReadFile(name)
				h.Write(data)
				return err
			}
			return nil
		})
		require.NoError(t, err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func noStubs(t *testing.T, w *world) {
	w.symlink(t, w.home+"/other", w.work+"/link")
	hash := func() string { return tree(t, w.home, w.grant, w.run, w.tmp) }
	before := hash()
	for _, c := range []struct {
		what  string
		flags []string
		code  int
	}{
		{"success", nil, 0},
		{"a grant below the workspace", []string{"--ro", w.work + "/dir", "--ro", w.work + "/dir/inner"}, 0},
		{"a grant that does not exist", []string{"--ro", w.work + "/new/deep"}, 125},
		{"a socket that is none", []string{"--socket", w.work + "/.env"}, 125},
		{"a place behind a link", []string{"--ro", w.work + "/link/new"}, 125},
		{"a directory that is not there", []string{"--chdir", w.work + "/new"}, 125},
		{"a wrong filter", []string{"--seccomp", w.grant + "/file"}, 125},
	} {
		e := w.in(t, c.flags, "true")
		assert.Equal(t, c.code, e.code, "%s\n%v", c.what, e)
		assert.Equal(t, before, hash(), "after %s nothing has changed", c.what)
	}
	e := w.in(t, nil, "no-such-command")
	assert.Equal(t, 127, e.code)
	assert.Equal(t, before, hash())
}

// CVE-2024-32462.
func dashedNames(t *testing.T, w *world) {
	for _, name := range []string{"--bind", "-c", "--", "--rw=."} {
		file := filepath.Join(w.work, name)
		w.write(t, file, "#!/bin/sh\necho \"ran $*\"\n")
		require.NoError(t, os.Chmod(file, 0o755))
		e := w.in(t, []string{"--setenv", "PATH=" + w.work + ":/bin"}, name, "--ro", "/")
		assert.Equal(t, "ran --ro /\n", e.stdout, "%s is the name of a program\n%v", name, e)
		require.NoError(t, os.Remove(file))
		e = w.in(t, nil, name)
		assert.Equal(t, 127, e.code, "%s is not found, and no flag\n%v", name, e)
	}
}

func requestedDirectory(t *testing.T, w *world) {
	other := w.home + "/other"
	at := func(c *exec.Cmd) { c.Dir = other }
	script := "touch planted " + other + "/planted 2>&1; echo $?"
	e := w.do(t, at, built.nsrun, "run", "--", "sh", "-c", script)
	assert.True(t, strings.HasSuffix(e.stdout, "\n1\n"), "the working directory is read-only\n%v", e)
	manifest := w.manifest(t, map[string]any{"workspace": w.work})
	e = w.do(t, at, built.nsrun, "run", "--manifest", manifest, "--", "sh", "-c", "touch "+other+"/planted 2>&1; echo $?")
	assert.True(t, strings.HasSuffix(e.stdout, "\n1\n"), "under a manifest it is not shown\n%v", e)
	empty(t, other)
}
