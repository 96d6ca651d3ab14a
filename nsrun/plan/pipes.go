package plan

import (
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// Pipes are the FIFOs in what is read-only inside something writable. A read-only mount keeps nobody from writing into a FIFO, and Landlock's
// rules for the writable place hold for all that is mounted below it, so they are covered. Whoever asks for a plan has looked for them.
type Pipes struct {
	Found []Pipe
	// Unseen are directories, by their place inside, in which not all could be looked at.
	Unseen []string
}

// Pipe is a FIFO of the host, and its place inside.
type Pipe struct{ Source, Dest string }

// pipes covers them where there is a view. The backend landlock refuses what is read-only inside something writable.
func (c *compiler) pipes() {
	if c.plan.Backend == BackendNone || c.plan.Backend == BackendLandlock {
		return
	}
	var dests []string
	for _, p := range c.req.Pipes.Found {
		dests = append(dests, p.Dest)
		c.plan.Mounts = append(c.plan.Mounts, mounts.Op{Kind: mounts.Mask, Source: p.Source, Dest: p.Dest, Optional: true, Quiet: true, Why: "FIFO"})
	}
	if len(dests) > 0 {
		c.note("fifo", "covered, as FIFOs in what is read-only inside something writable could be written into: "+strings.Join(dests, ", "),
			"move them out of what is granted if the command should read them")
	}
	if len(c.req.Pipes.Unseen) > 0 {
		c.note("fifo", "FIFOs that are deep in these places can be written into, though they are read-only inside something writable: "+
			strings.Join(c.req.Pipes.Unseen, ", "), "grant them outside of what is writable, if they hold FIFOs")
	}
}
