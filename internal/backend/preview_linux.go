package backend

import (
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// Preview lowers a plan for this host and starts nothing. The channels print as descriptors 3 and 4.
func Preview(p *plan.Plan) (*stages.Lowered, error) {
	host := hostFor(p)
	defer host.Close()
	return preview(stages.Lower, p, host)
}

// PreviewServer is [Preview] of a session's sandbox.
func PreviewServer(p *plan.Plan) (*stages.Lowered, error) {
	var host mounts.Host
	defer host.Close()
	return preview(stages.LowerServer, p, &host)
}

// preview lowers a plan with trace, and verifies the program.
func preview(lower func(*plan.Plan, mounts.Resolver, stages.FDs, bool) (*stages.Lowered, error), p *plan.Plan, resolver mounts.Resolver) (*stages.Lowered, error) {
	f := stages.FDs{Report: 3, Status: 4}
	l, err := lower(p, resolver, f, true)
	if err != nil {
		return nil, wrapLowering(err, p)
	}
	return l, l.Verified(p, f)
}
