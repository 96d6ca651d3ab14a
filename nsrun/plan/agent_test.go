package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// TestAnAgentIsNeverShownAsItIs: by each backend the command has the filter's socket, or none and a note.
func TestAnAgentIsNeverShownAsItIs(t *testing.T) {
	const socket, inside = "/tmp/ssh-x/agent.1", "/run/ssh-agent"
	for _, backend := range ladder() { // without none, whose command has all that the host has
		for name, private := range map[string]PrivatePlace{"place": spare, "no place": {Why: "it is shown"}} {
			pol := policy.Default("/home/me")
			pol.Backend, pol.Fallback = policy.Backend(backend), policy.Degrade
			pol.FS = append(pol.FS, policy.FS{Kind: policy.Socket, Source: socket, Dest: inside, Write: true, Optional: true, Agent: true, Within: []string{"/tmp"}, Tool: "ssh", Why: "tool ssh"})
			pol, err := policy.Normalize(pol, policy.Operator{})
			require.NoError(t, err)
			p, err := Compile(Request{Private: private, Policy: pol, Command: []string{"x"}}, hosts["kernel 6.18, user"])
			require.NoError(t, err)
			shown := false
			for _, op := range p.Mounts {
				assert.NotEqual(t, socket, op.Source, backend)
				if op.Dest == inside {
					shown = true
					assert.Equal(t, "bind /run/ssh-agent <- "+spare.Dir+"/agent rw nosuid nodev optional no-follow only=socket", op.String(), "no bound of the host's socket holds for it")
					assert.Equal(t, &Private{Dir: spare.Dir, Agent: socket}, p.Private)
				}
			}
			want := name == "place" && (backend == BackendNative || backend == BackendBwrap)
			assert.Equal(t, want, shown, "%s, %s", backend, name)
			noted := false
			for _, n := range p.Notes {
				noted = noted || n.Feature == "tools"
			}
			assert.Equal(t, !want, noted, "%s, %s: a note says so", backend, name)
		}
	}
}
