package backend

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLookup looks for programs in a view that is put together here: a bind of a directory with links, an empty tmpfs in it, a link of the
// sandbox's own, and a procfs. Only what is certainly not there is an error.
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bin/tool", "bin/covered/old", "lib/x"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	for name, target := range map[string]string{"bin/near": "tool", "bin/far": "/usr/bin/tool", "bin/out": dir + "/bin/tool", "bin/round": "round", "bin/up": "../lib/x",
		"bin/gone": "nowhere", "bin/dir": "../bin"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	ops := []mounts.Op{{Kind: mounts.Bind}, {Kind: mounts.Symlink}, {Kind: mounts.Tmpfs}, {Kind: mounts.Proc}, {Kind: mounts.Bind}, {Kind: mounts.Bind}}
	resolved := []mounts.Resolved{{Dest: "/usr", Source: dir}, {Dest: "/bin", Link: true, Target: "usr/bin"}, {Dest: "/usr/bin/covered"}, {Dest: "/proc"},
		{Dest: "/deep/er", Source: dir}, {Dest: "/left/out", Source: dir, Missing: true}}
	for command, there := range map[string]bool{
		"tool": true, "near": true, "far": true, "up": true, "nosuch": false, "gone": false, "out": false,
		"/usr/bin/tool": true, "/bin/tool": true, "/bin/../lib/x": true, "/usr/bin/dir/tool": true, "/bin/dir/near": true, "./bin/tool": true, "lib/x": true,
		"/deep": true, "/deep/er/bin/tool": true, "/deep/x": false, "/left": false, "/left/out/bin/tool": false, "/etc/passwd": false, "./tool": false,
		"/usr/bin/covered/old": false, "/usr/bin/tool/x": false, "/usr/bin/covered": true,
		"/usr/bin/round": true, "/proc/self/exe": true, // only the run can tell
	} {
		p := &plan.Plan{Command: []string{command}, Env: []string{"PATH=/nosuch:/bin"}, Dir: "/usr", Mounts: ops}
		err := Lookup(p, resolved)
		assert.Equal(t, there, err == nil, "%s: %v", command, err)
		if err != nil {
			assert.True(t, errors.Is(err, ErrNotFound), "%s: %v", command, err)
		}
		p.Backend = plan.BackendDocker
		assert.NoError(t, Lookup(p, resolved), "%s: Docker's root is not looked at", command)
	}
	// Where the sandbox sees the host's own tree, that is what is looked at.
	p := &plan.Plan{Command: []string{dir + "/bin/out"}, Dir: "/"}
	assert.NoError(t, Lookup(p, nil))
	p.Command[0] = dir + "/bin/gone"
	assert.ErrorIs(t, Lookup(p, nil), ErrNotFound)
	// A directory that this user cannot look into is left to the run.
	if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(filepath.Join(dir, "lib"), 0))
		defer func() { assert.NoError(t, os.Chmod(filepath.Join(dir, "lib"), 0o755)) }()
		p.Command[0] = dir + "/lib/nosuch"
		assert.NoError(t, Lookup(p, nil))
	}
}
