package nsrun

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"slices"

	"github.com/nsrun/nsrun/nsrun/internal/engine"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// Receipt is what was really on, mechanism by mechanism, and what was not. Of a run that was refused or failed it is what would have
// been.
type Receipt struct {
	Engine string `json:"engine,omitempty"`
	// Container is what a container was made with, by the engine docker.
	Container  *plan.Container `json:"container,omitempty"`
	Namespaces []string        `json:"namespaces,omitempty"`
	// Network is what could be reached, and NetworkBy what kept the rest away: a namespace, a filter, or nothing.
	Network   string `json:"network,omitempty"`
	NetworkBy string `json:"network_by,omitempty"`
	// Capabilities is "none", or "the caller's".
	Capabilities string           `json:"capabilities,omitempty"`
	NoNewPrivs   bool             `json:"no_new_privs,omitempty"`
	Landlock     *LandlockReceipt `json:"landlock,omitempty"`
	Seccomp      *SeccompReceipt  `json:"seccomp,omitempty"`
	Limits       []LimitReceipt   `json:"limits,omitempty"`
	// KillTree is what ends all that the command has started.
	KillTree string `json:"kill_tree,omitempty"`
	// SelfTest lists the acts that were tried before the command was started, and failed as they must.
	SelfTest []plan.Act `json:"self_test,omitempty"`
	// Holds lists the guarantees that held, Lost the others; Notes says what was lost and how to get it back.
	Holds []string    `json:"holds,omitempty"`
	Lost  []string    `json:"lost,omitempty"`
	Notes []plan.Note `json:"notes,omitempty"`
}

// LandlockReceipt says what Landlock confined.
type LandlockReceipt struct {
	ABI    int      `json:"abi"`
	Rights []string `json:"rights"` // on files and ports, that were refused but where a rule allowed them
	Scopes []string `json:"scopes,omitempty"`
	Rules  int      `json:"rules"`
	SHA256 string   `json:"sha256"` // of the ruleset's JSON: equal rulesets have equal hashes
}

// SeccompReceipt says which filters judged system calls.
type SeccompReceipt struct {
	Profile     string   `json:"profile"`
	ProfileHash string   `json:"profile_hash,omitempty"` // SHA-256 of the profile's filter alone
	Deny        []string `json:"deny,omitempty"`
	Refuse      []string `json:"refuse,omitempty"`
	Filters     int      `json:"filters"`
	SHA256      string   `json:"sha256"` // of all filters, one after the other
}

// LimitReceipt is one limit and what enforced it.
type LimitReceipt struct {
	Limit string `json:"limit"` // "open_files=256"
	By    string `json:"by"`    // "rlimit", of each process; "cgroup", of all together
}

func receipt(p *plan.Plan, out engine.Outcome) Receipt {
	r := Receipt{Engine: p.Engine, Container: p.Container, Namespaces: p.Namespaces, Network: p.Network, NetworkBy: networkBy(p), Capabilities: "none", NoNewPrivs: true,
		Landlock: landlockReceipt(p.Landlock, out), Seccomp: seccompReceipt(p.Seccomp), KillTree: killTree(p), SelfTest: out.Tried, Holds: p.Holds}
	if p.Engine == plan.EngineNone {
		r.Capabilities, r.NoNewPrivs = "the caller's", false
	}
	for _, l := range p.Limits {
		r.Limits = append(r.Limits, LimitReceipt{l.String(), "rlimit"})
	}
	if p.Container != nil {
		for _, l := range p.Container.Limits() {
			r.Limits = append(r.Limits, LimitReceipt{l, "cgroup"})
		}
	}
	r.Lost = p.Lost()
	r.Notes = slices.Concat(p.Notes, missing(p, out.Seen), out.Losses)
	return r
}

func networkBy(p *plan.Plan) string {
	switch {
	case p.Network != string(policy.NetworkNone):
		return ""
	case slices.Contains(p.Namespaces, plan.Net):
		return "network namespace"
	}
	return "seccomp"
}

func killTree(p *plan.Plan) string {
	switch {
	case p.Engine == plan.EngineDocker:
		return "container"
	case slices.Contains(p.Namespaces, plan.Pid):
		return "pid namespace"
	case p.KillScope:
		return "Landlock domain"
	}
	return "process group"
}

func landlockReceipt(l *plan.Landlock, out engine.Outcome) *LandlockReceipt {
	if l == nil {
		return nil
	}
	rules := l.Ruleset
	if out.Rules != nil {
		rules.Paths = out.Rules
	}
	data, _ := json.Marshal(rules) // it has nothing that cannot be written
	return &LandlockReceipt{ABI: l.ABI, Rights: append(rules.HandledFS.Names(), rules.HandledNet.Names()...), Scopes: rules.Scoped.Names(),
		Rules: len(rules.Paths) + len(rules.Ports), SHA256: hash(data)}
}

func seccompReceipt(s *plan.Seccomp) *SeccompReceipt {
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
	return &SeccompReceipt{Profile: s.Profile, ProfileHash: s.Hash, Deny: s.Deny, Refuse: s.Refuse, Filters: len(filters), SHA256: hash(data)}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
