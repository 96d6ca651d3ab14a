// Package guest is what the two sides of a virtual machine's serial line agree on: the plan that /init finds in its root, and the frames
// that it answers with.
//
//	guest.Write(serial, guest.Frame{Kind: guest.Begin, Name: "user"})
//	f, err := guest.Read(bufio.NewReader(stdout))
//
// It protects nothing, and trusts the guest as far as the host's tests trust their own programs.
package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Plan is what /init does: it loads the modules, makes each host in turn and runs its steps, and powers off.
type Plan struct {
	Modules []string // files, each after those that it needs
	Hosts   []Hosted // one boot serves for all; see Host for what cannot be taken back
}

// Hosted is a host and what runs on it.
type Hosted struct {
	Host  Host
	Steps []Step
}

// PlanFile is where /init finds its plan, as JSON.
const PlanFile = "/plan.json"

// Host is a host that /init makes. The zero value is one like Debian's: cgroup v2, all mounts shared, writable places on tmpfs. Before the
// next host /init takes back everything but AppArmor's profiles, which only the last host can have. Only the first host of a boot can keep
// the initramfs as its root; ReadOnly must be the same for the others.
type Host struct {
	Sysctl       map[string]string // written before the steps; one that is missing ends the machine
	Cgroup       string            // "" or v2, v1, hybrid, none
	NoDelegation bool              // the steps' control groups are root's, not their users'
	ProcOptions  string            // of the /proc that there is, such as hidepid=2
	ReadOnly     bool              // the root; of the places on tmpfs only /run and /home are there, and WritableTmp
	NoShm        bool              // no /dev/shm
	InitramfsTop bool              // the root stays the initramfs, which cannot be pivoted away from before Linux 7.0
	AppArmor     string            // file with compiled profiles, which are loaded; "" for none
}

// WritableTmp is a directory for temporary files that everybody can write to on every host.
const WritableTmp = "/run/tmp"

// Step is one program that /init runs to its end, in a control group of its own.
type Step struct {
	Name    string
	UID     int // and GID
	Argv    []string
	Env     []string
	Dir     string
	Seconds int  // after which it is killed with all that it has started
	Shared  bool // the groups beside its own, of version 2, may bound memory and processes, as a service manager's may
	Console bool // it has the serial line as its terminal, unframed
}

// Kind is what a frame tells.
type Kind string

// The kinds of frames. Every machine says Up first and Halt last.
const (
	Up    Kind = "up"    // Name: the kernel's release
	Begin Kind = "begin" // Name: the step
	Out   Kind = "out"   // Name: the step; Data: what it has printed
	Exit  Kind = "exit"  // Name: the step; Data: its exit code, 128+n for signal n
	Left  Kind = "left"  // Name: the step; Data: what it has left behind, a line each
	Fault Kind = "fault" // Data: why the machine cannot go on
	Halt  Kind = "halt"
)

// Frame is a line "F kind name length" and that many bytes.
type Frame struct {
	Kind Kind
	Name string
	Data []byte
}

// Write sends a frame.
func Write(w io.Writer, f Frame) error {
	name := f.Name
	if name == "" {
		name = "-"
	}
	_, err := w.Write(append(fmt.Appendf(nil, "\nF %s %s %d\n", f.Kind, name, len(f.Data)), f.Data...))
	return err
}

// maxFrame bounds what one frame may hold.
const maxFrame = 1 << 20

// Read skips to the next frame and returns it. Lines between frames are nobody's: firmware prints them.
func Read(r *bufio.Reader) (Frame, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return Frame{}, err
		}
		var f Frame
		var length int
		if n, err := fmt.Sscanf(line, "F %s %s %d\n", &f.Kind, &f.Name, &length); err != nil || n != 3 {
			continue
		}
		if length < 0 || length > maxFrame {
			return Frame{}, errors.New("a frame of " + fmt.Sprint(length) + " bytes")
		}
		f.Data = make([]byte, length)
		if _, err := io.ReadFull(r, f.Data); err != nil {
			return Frame{}, err
		}
		return f, nil
	}
}
