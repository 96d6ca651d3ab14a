package verify

import (
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
)

// Claim is one promise of the sandbox, which the calls of a program serve.
type Claim int

// The claims. [Claims] has each in a sentence.
const (
	Places      Claim = 1 + iota // where things are mounted and made
	Flags                        // the flags of mounts
	OldRoot                      // the host's files are out of reach
	Descriptors                  // nothing inherited is open
	Order                        // the stages of confinement
	Rules                        // Landlock's rules and the filters
	Users                        // user namespaces and ids
	Tolerance                    // errors that are no failure
	Lifetime                     // which process ends with which, and which can look into which
	Network                      // where all that the command sends arrives
)

// Claims has, for each claim, the promise and the attack that it excludes.
var Claims = [...]struct{ Claim, Excludes string }{
	Places: {"Every mount point and every file is made and opened from a descriptor of the new root, through no symlink, and nothing is made in a directory of the host.",
		"CVE-2026-87766: a mount point made through a symlink that was planted; CVE-2019-16884, CVE-2021-30465"},
	Flags: {"Every mount has the plan's flags before it is attached, or, before Linux 5.12, before the command exists; no later call takes one away.",
		"a moment in which a read-only grant can be written; set-uid programs and device nodes of a granted directory"},
	OldRoot: {"The host's root is detached before the command's process exists, and no descriptor of a host directory is open when the command begins.",
		"CVE-2024-21626: a working directory or a descriptor that leads out of the new root; CVE-2016-9962"},
	Descriptors: {"Every inherited descriptor but 0, 1 and 2 is closed before the command begins.",
		"CVE-2024-21626: a leaked descriptor of a host directory"},
	Order: {"The stages of confinement come in the order of the table, each exactly once: no new privileges, no capabilities, Landlock, seccomp, exec.",
		"CVE-2017-5226: a controlling terminal to push input into; a stage that the one before it has made impossible, or pointless"},
	Rules: {"The Landlock rules grant no more than the plan and the mounts do, and each filter is the plan's, byte for byte.",
		"rules that are wider than the mounts they stand behind, and a filter that nobody has reviewed"},
	Users: {"The command's user namespace owns neither the mounts nor the other namespaces, ids are mapped as planned, setgroups is denied before gid_map is written, and no further user namespace can be made.",
		"CVE-2014-8989: dropping a group that denies access; unmounting what covers a file; CVE-2022-0185 and other kernel bugs behind user namespaces"},
	Tolerance: {"No call may fail with an error that is not in the table of tolerated errors.",
		"protection that is silently not there"},
	Lifetime: {"The sandbox asks to die with its caller and then checks that the caller is alive; pid 1 cannot be traced or read.",
		"a sandbox that outlives its owner; CVE-2019-5736: the runner's own binary, reached through pid 1"},
	Network: {"With an allow-list every address belongs to the sandbox's own loopback device, and the sockets that answer there are sent to the caller and closed before the command's process exists.",
		"a way around the list; a socket by which the command answers in nsrun's place"},
}

// Violation is the first call at which a program differs from the plan.
type Violation struct {
	Claim Claim
	Call  int
	Step  sys.Step // the name of the call's step in listings and errors
	Text  string
}

// String returns, for example, "bug: the program breaks claim 2 at call 13, mount 1 (bind /a): argument 3 has other flags".
func (v *Violation) String() string {
	return fmt.Sprintf("bug: the program breaks claim %d at call %d, %s: %s", v.Claim, v.Call, v.Step, v.Text)
}
