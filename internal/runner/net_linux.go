package runner

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/result"
)

// network adds to the outcome what was reached and refused since the command was started, by it or by what else runs in the session.
func (proc *process) network(out *backend.Outcome) {
	network := proc.sandbox.Network()
	if network == nil {
		return
	}
	now, err := network.Counts()
	if err != nil {
		lost := backend.HelperLost(err)
		lost.Fix = "start the next command with Fresh, or open another session"
		out.Losses = append(out.Losses, lost)
		return
	}
	since := now.Since(proc.counts)
	out.Net = &since
}

// netDenials is what the network allow refused, the last first.
func netDenials(s *netmessage.Summary) (all []result.Denial) {
	if s == nil {
		return nil
	}
	for _, r := range s.Refusals {
		all = append(all, netDenial(r))
	}
	return all
}

func netDenial(r netmessage.Refusal) result.Denial {
	d := result.Denial{Kind: "net", Op: r.Op, Path: netPlace(r), Rule: "network", Reason: r.Detail, Count: r.Count}
	if r.Rule != "" {
		d.Change = &result.Change{Flag: "--net allow:" + r.Rule, Manifest: fmt.Sprintf(`"network": {"allow": [%q]}`, r.Rule)}
	}
	return d
}

// netPlace is what was asked for: a name, or name:port.
func netPlace(r netmessage.Refusal) string {
	host := cmp.Or(r.Name, r.Address)
	if r.Port == 0 {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(r.Port)
}

// allowReceipt is what could be reached by the network allow, and what was.
func allowReceipt(a *plan.Allow, out backend.Outcome) *result.AllowReceipt {
	if a == nil {
		return nil
	}
	r := &result.AllowReceipt{Rules: a.Rules, Step: a.Step}
	if s := out.Net; s != nil {
		for _, n := range s.Names {
			r.Reached = append(r.Reached, result.Reached(n))
		}
		r.Omitted = s.Omitted
	}
	return r
}
