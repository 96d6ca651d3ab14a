package backend

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNoRuleFollowsALinkOnTheWay exchanges a directory between two grants for a symlink when all is mounted and before Landlock's rules are
// opened, as another sandbox with the same workspace could. The rule must not be one for where the symlink leads.
func TestNoRuleFollowsALinkOnTheWay(t *testing.T) {
	if !probe.Quick().Can(facts.Landlock) {
		t.Skip("this kernel has no Landlock")
	}
	for name, exchange := range map[string]bool{"positive control": false, "a link on the way": true} {
		for way, openat2 := range map[string]bool{"openat2": true, "name by name": false} {
			t.Run(name+", "+way, func(t *testing.T) {
				dir, err := filepath.EvalSymlinks(t.TempDir())
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(dir+"/on/granted", 0o755))
				require.NoError(t, os.MkdirAll(dir+"/other/granted", 0o755))
				p, _ := touch(t, func(pol *policy.Policy) {
					*pol = pol.Grant(dir, false, "test").Grant(dir+"/on/granted", true, "test") // a rule of its own: it gives more
					for i := range pol.FS {                                                     // otherwise the rule of the private /tmp, in which the test's directory lies, gives as much
						pol.FS[i].NoExec = pol.FS[i].NoExec || pol.FS[i].Kind == policy.Tmpfs
					}
					*pol, _ = policy.Normalize(*pol, policy.Operator{})
					pol.Dir = dir + "/on/granted"
				})
				p.Mechanisms.Openat2 = openat2 && p.Mechanisms.Openat2
				runtime.LockOSThread() // the sandbox dies with it
				defer runtime.UnlockOSThread()
				ch, err := openChannels()
				require.NoError(t, err)
				defer ch.close()
				var host mounts.Host
				defer host.Close()
				lowered, err := stages.Lower(p, &host, stages.FDs{Report: ch.childReport, Status: ch.childStatus}, false)
				require.NoError(t, err)
				pid, pidfd, err := lowered.Program.Fork(lowered.Flags, ch.childReport)
				require.NoError(t, err)
				ch.closeChild()
				r := &run{plan: p, lowered: lowered, pid: pid, pidfd: pidfd, parent: -1, command: -1, ch: ch, pumps: &pumps{}}
				r.listen()
				defer r.close()
				// It opens the rules when this process has answered.
				testenv.Eventually(t, func() bool {
					at, _ := os.Readlink("/proc/" + children(t, strconv.Itoa(pid)) + "/cwd")
					return strings.HasSuffix(at, dir+"/on/granted")
				}, "the process that becomes the command is in its working directory")
				if exchange {
					require.NoError(t, os.Rename(dir+"/on", dir+"/was"))
					require.NoError(t, os.Symlink("other", dir+"/on"))
				}
				_, err = r.finish()
				if !exchange {
					require.NoError(t, err)
					assert.FileExists(t, dir+"/on/granted/marker")
					return
				}
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, "landlock", e.Stage)
				assert.Equal(t, dir+"/on/granted", e.Path)
				assert.Equal(t, "a symlink appeared on the path since it was looked at; try again", e.Hint)
				assert.NoFileExists(t, dir+"/was/granted/marker", "the command has run")
				if openat2 {
					assert.ErrorIs(t, err, unix.ELOOP)
				}
			})
		}
	}
}
