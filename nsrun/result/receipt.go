package result

import "github.com/nsrun/nsrun/nsrun/plan"

// Receipt is what was really on, mechanism by mechanism, and what was not. Of a run that was refused or failed it is what would have
// been.
type Receipt struct {
	// Backend is the one that carried the policy out.
	Backend string `json:"backend,omitempty"`
	// Container is what a container was made with, by the backend docker.
	Container *plan.Container `json:"container,omitempty"`
	// Namespaces are those that were the sandbox's own.
	Namespaces []string `json:"namespaces,omitempty"`
	// Network is what could be reached: "none", "host" or "allow".
	Network string `json:"network,omitempty"`
	// NetworkBy is what kept the rest of the network away: a namespace, a filter, or nothing.
	NetworkBy string `json:"network_by,omitempty"`
	// Allow says what could be reached by the network allow, and what was.
	Allow *AllowReceipt `json:"allow,omitempty"`
	// Capabilities is "none", or "the caller's".
	Capabilities string `json:"capabilities,omitempty"`
	// NoNewPrivs says that no program could gain privileges.
	NoNewPrivs bool `json:"no_new_privs,omitempty"`
	// Landlock says what it confined.
	Landlock *LandlockReceipt `json:"landlock,omitempty"`
	// Seccomp says which filters decided about system calls.
	Seccomp *SeccompReceipt `json:"seccomp,omitempty"`
	// Limits are those in force, and what enforced each.
	Limits []LimitReceipt `json:"limits,omitempty"`
	// KillTree is what ends all that the command has started.
	KillTree string `json:"kill_tree,omitempty"`
	// Protect says which places that make the host run something were read-only, and in which directories they were compared.
	Protect *plan.Protect `json:"protect,omitempty"`
	// Explain says how denials were found out.
	Explain *Explained `json:"explain,omitempty"`
	// SelfTest lists the acts that were tried before the command was started, and failed as they must.
	SelfTest []plan.Act `json:"self_test,omitempty"`
	// Holds lists the guarantees that held.
	Holds []string `json:"holds,omitempty"`
	// Lost lists the guarantees that did not hold.
	Lost []string `json:"lost,omitempty"`
	// Notes says what was not as asked for, and how to get it back.
	Notes []plan.Note `json:"notes,omitempty"`
}

// AllowReceipt is about the network allow.
type AllowReceipt struct {
	// Rules are the plan's.
	Rules []string `json:"rules"`
	// Step is how connections got to nsrun's helper: "redirect" or "ports".
	Step string `json:"step"`
	// Reached lists the names and addresses that were reached most, sorted. There are at most 256.
	Reached []Reached `json:"reached,omitempty"`
	// Omitted counts names and refusals that there was no room for.
	Omitted int `json:"omitted,omitempty"`
}

// Reached counts what went to one name or address, and what came from it.
type Reached struct {
	// Name is a name of the rules, or an address.
	Name string `json:"name"`
	// Connections counts those of TCP, and flows of UDP.
	Connections int `json:"connections"`
	// Sent counts bytes from the sandbox.
	Sent int64 `json:"sent"`
	// Received counts bytes to the sandbox.
	Received int64 `json:"received"`
}

// LandlockReceipt says what Landlock confined.
type LandlockReceipt struct {
	ABI    int      `json:"abi"`              // the kernel's version of Landlock
	Rights []string `json:"rights"`           // on files and ports, that were refused but where a rule allowed them
	Scopes []string `json:"scopes,omitempty"` // what could not be reached outside of the sandbox
	Rules  int      `json:"rules"`            // how many there were
	SHA256 string   `json:"sha256"`           // of the ruleset's JSON: equal rulesets have equal hashes
}

// SeccompReceipt says which filters decided about system calls.
type SeccompReceipt struct {
	Filter     string   `json:"filter"`                // its name; "off" is none
	FilterHash string   `json:"filter_hash,omitempty"` // SHA-256 of that filter alone
	Deny       []string `json:"deny,omitempty"`        // further calls that were refused, by name
	Refuse     []string `json:"refuse,omitempty"`      // groups of calls that the backend refused of its own
	Filters    int      `json:"filters"`               // how many there were
	SHA256     string   `json:"sha256"`                // of all filters, one after the other
}

// LimitReceipt is one limit and what enforced it.
type LimitReceipt struct {
	Limit string `json:"limit"` // "open_files=256"
	By    string `json:"by"`    // "rlimit", of each process; "cgroup v2", "cgroup v2, in a systemd scope" or "cgroup v1", of all together; "kernel.pid_max", "pipe", "tmpfs"
	// Default says that it was not asked for. Of an rlimit what was in force before counts, if that is lower.
	Default bool `json:"default,omitempty"`
}
