package plan

import "github.com/nsrun/nsrun/nsrun/policy"

// Act is one thing that a sandbox tries before its command is started, and that must fail.
type Act string

// The acts.
const (
	ActRead    Act = "read-outside"   // open a directory of the host that is not granted
	ActWrite   Act = "write-outside"  // make a file, without a name, where only reading is granted
	ActSocket  Act = "host-socket"    // connect to an abstract Unix socket that nsrun listens on
	ActVsock   Act = "vsock"          // make a socket to the machine's hypervisor
	ActUser    Act = "user-namespace" // make a user namespace
	ActMount   Act = "mount"          // mount a tmpfs
	ActTrace   Act = "trace"          // attach to pid 1, or to nsrun's process beside the command
	ActSignal  Act = "signal"         // signal nsrun
	ActForeign Act = "foreign-call"   // make a system call of another architecture
)

// Acts lists them all, in the order they are tried.
var Acts = [...]Act{ActRead, ActWrite, ActSocket, ActVsock, ActUser, ActMount, ActTrace, ActSignal, ActForeign}

// selfTest picks the acts that the plan promises to refuse.
func (c *compiler) selfTest() error {
	p := c.plan
	if !c.pol.SelfTest {
		return nil
	}
	if p.Backend == BackendNone {
		c.impossible("sandbox", "there is no sandbox to test", "leave out self_test")
		return nil
	}
	builtin := p.Seccomp != nil && p.Seccomp.Filter != policy.SeccompOff
	for _, act := range Acts {
		promised := true
		switch act {
		case ActSocket:
			promised = policy.Network(p.Network).Own() || p.Landlock != nil && p.Landlock.Scoped != 0
		case ActVsock, ActUser:
			promised = builtin
		case ActTrace: // bubblewrap's own pid 1 is kept away by either
			promised = builtin || p.Landlock != nil || p.Backend != BackendBwrap
		case ActForeign:
			promised = builtin && c.facts.Arch == "amd64" // a 64-bit program has no way to make one on arm64
		case ActSignal:
			promised = p.Backend != BackendLandlock || p.KillScope
		}
		if promised {
			p.SelfTest = append(p.SelfTest, act)
		}
	}
	return nil
}
