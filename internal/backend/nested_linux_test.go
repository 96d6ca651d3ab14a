package backend

import (
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNestedUserNamespacesNeedOneWall makes /proc/sys/user/max_user_namespaces as if it could not be written to, which containers do. A run
// goes on only with a built-in filter, which refuses user namespaces itself: a filter of the caller's that refuses other calls is no reason.
func TestNestedUserNamespacesNeedOneWall(t *testing.T) {
	for name, c := range map[string]struct {
		seccomp policy.Seccomp
		goesOn  bool
	}{
		"the default filter":                {policy.Seccomp{Filter: "default"}, true},
		"a filter and more":                 {policy.Seccomp{Filter: "default", Deny: []string{"ptrace"}}, true},
		"nothing":                           {policy.Seccomp{Filter: policy.SeccompOff}, false},
		"the refusal of something else":     {policy.Seccomp{Filter: policy.SeccompOff, Deny: []string{"ptrace"}}, false},
		"the refusal of one way of several": {policy.Seccomp{Filter: policy.SeccompOff, Deny: []string{"unshare"}}, false},
	} {
		for _, errno := range []unix.Errno{unix.EROFS, unix.EACCES, unix.ENOENT} {
			t.Run(name+" "+unix.ErrnoName(errno), func(t *testing.T) {
				p, marker := touch(t, func(pol *policy.Policy) { pol.Seccomp = c.seccomp })
				p.Command = []string{"sh", "-c", "touch marker; ! unshare -U true 2>/dev/null"}
				found := false
				out, err := Run(p, Options{Inject: func(program *sys.Program) {
					for i := range program.Len() {
						if !found && program.Describe(i).Op == "no nested user namespaces" {
							program.Inject(i, errno)
							found = true
						}
					}
				}})
				require.True(t, found)
				if c.goesOn {
					require.NoError(t, err)
					assert.Zero(t, out.Status.ExitStatus(), "no user namespace can be made")
					assert.FileExists(t, marker)
					return
				}
				require.ErrorIs(t, err, errno)
				require.ErrorContains(t, err, "no nested user namespaces")
				assert.NoFileExists(t, marker)
			})
		}
	}
}
