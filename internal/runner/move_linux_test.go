package runner

import (
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
)

// TestMovesBetweenDirectoriesInASession: the domain by which a command is killed does not keep it from moving files.
func TestMovesBetweenDirectoriesInASession(t *testing.T) {
	if testenv.Landlock() == 1 {
		t.Skip("Landlock ABI 2 has the right to do that")
	}
	for _, backend := range []policy.Backend{policy.BackendNative, policy.BackendLandlock} {
		if backend == policy.BackendLandlock && testenv.Landlock() < 6 {
			continue // it has no sessions
		}
		dir := t.TempDir()
		s := opened(t, NewPolicy().Workspace(dir).Backend(backend))
		r := sh(t, s, "mkdir from to; echo x >from/file; ln from/file to/link && rm to/link; n=$(stat -c %i from/file); mv from/file to/; test $(stat -c %i to/file) = $n; ls from to")
		assert.Equal(t, "from:\n\nto:\nfile\n", string(r.Stdout), "%s", r.Stderr)
		assert.Empty(t, string(r.Stderr), string(backend))
	}
}
