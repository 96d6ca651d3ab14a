package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

func receipt(p *plan.Plan, out backend.Outcome) result.Receipt {
	r := result.Receipt{Backend: p.Backend, Container: p.Container, Namespaces: p.Namespaces, Network: p.Network, NetworkBy: networkBy(p), Capabilities: "none", NoNewPrivs: true,
		Landlock: landlockReceipt(p.Landlock, out), Seccomp: seccompReceipt(p.Seccomp), KillTree: killTree(p), SelfTest: out.Tried, Holds: p.Holds}
	if p.Backend == plan.BackendNone {
		r.Capabilities, r.NoNewPrivs = "the caller's", false
	}
	r.Allow = allowReceipt(p.Allow, out)
	r.Limits, r.Protect = limitReceipts(p), p.Protect
	r.Lost = p.Lost()
	r.Notes = notes(p, out)
	return r
}

// briefReceipt is for a caller that reads no receipt: see [backend.Options].
func briefReceipt(p *plan.Plan, out backend.Outcome) result.Receipt {
	return result.Receipt{Backend: p.Backend, Notes: notes(p, out)}
}

func notes(p *plan.Plan, out backend.Outcome) []plan.Note {
	return slices.Concat(p.Notes, missing(p, out.Resolved), out.Losses)
}

func limitReceipts(p *plan.Plan) (all []result.LimitReceipt) {
	for _, l := range p.Limits {
		all = append(all, result.LimitReceipt{Limit: l.String(), By: "rlimit"})
	}
	for _, h := range p.EnforcedBy {
		all = append(all, result.LimitReceipt(h))
	}
	for _, l := range p.SoftCaps {
		all = append(all, result.LimitReceipt{Limit: l.String(), By: "rlimit", Default: true})
	}
	if p.Output != nil {
		all = append(all, result.LimitReceipt{Limit: fmt.Sprintf("%s=%d", policy.OutputBytes, p.Output.Bytes), By: "pipe", Default: p.Output.Pipes})
	}
	return all
}

func networkBy(p *plan.Plan) string {
	switch {
	case !policy.Network(p.Network).Own():
		return ""
	case p.Allow != nil && p.Allow.Step == plan.StepRedirect:
		return "network namespace, nf_tables"
	case slices.Contains(p.Namespaces, plan.Net):
		return "network namespace"
	}
	return "seccomp"
}

func killTree(p *plan.Plan) string {
	switch {
	case p.Backend == plan.BackendDocker:
		return "container"
	case slices.Contains(p.Namespaces, plan.Pid):
		return "pid namespace"
	case p.KillScope:
		return "Landlock domain"
	}
	return "process group"
}

func landlockReceipt(l *plan.Landlock, out backend.Outcome) *result.LandlockReceipt {
	if l == nil {
		return nil
	}
	rules := l.Ruleset
	if out.Rules != nil {
		rules.Paths = out.Rules
	}
	data, _ := json.Marshal(rules) // it has nothing that cannot be written
	return &result.LandlockReceipt{ABI: l.ABI, Rights: append(rules.HandledFS.Names(), rules.HandledNet.Names()...), Scopes: rules.Scoped.Names(),
		Rules: len(rules.Paths) + len(rules.Ports), SHA256: hash(data)}
}

func seccompReceipt(s *plan.Seccomp) *result.SeccompReceipt {
	if s == nil {
		return nil
	}
	filters, err := s.Filters(runtime.GOARCH)
	if err != nil {
		return nil // the plan was not for this machine, and has not run
	}
	var data []byte
	for _, f := range filters {
		data = append(data, f.Bytes()...)
	}
	return &result.SeccompReceipt{Filter: s.Filter, FilterHash: s.Hash, Deny: s.Deny, Refuse: s.Refuse, Filters: len(filters), SHA256: hash(data)}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
