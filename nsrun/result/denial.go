package result

// Denial is something that was refused to the command, and what would have allowed it. It is found out beside the command, not by what refuses: a
// hostile command can make it wrong, and never what is refused.
type Denial struct {
	// Kind is "fs", "exec", "net", "syscall", "socket", "setuid", "secret", "limit" or "foreign-arch".
	Kind string `json:"kind"`
	// Op is the system call, or "resolve" of a name that was asked for. Of a limit it is the limit with its value, such as "pids=64".
	Op string `json:"op"`
	// Path is what was asked for: a path inside, an address, a family of sockets. A secret's is left out.
	Path string `json:"path,omitempty"`
	// Inside is what the sandbox has there: "nothing" or "read-only".
	Inside string `json:"inside,omitempty"`
	// Host is the path of what the host has there.
	Host string `json:"host,omitempty"`
	// Rule is what refused: "view", "read-only", "landlock", "seccomp", "network", "no_new_privs", or the name of a limit.
	Rule string `json:"rule"`
	// Reason says why, of what the network allow refused: "no rule names it".
	Reason string `json:"reason,omitempty"`
	// Count is how often it was asked for.
	Count int `json:"count"`
	// FirstComm is the name of the first process that did.
	FirstComm string `json:"first_comm,omitempty"`
	// Change is what allows it. There is none for what no grant can allow, and for what would be a mistake.
	Change *Change `json:"change,omitempty"`
}

// Change is what allows what was refused.
type Change struct {
	// Flag is for nsrun run.
	Flag string `json:"flag"`
	// Manifest is the same in a manifest: a key and its value.
	Manifest string `json:"manifest"`
}

// Explained says how denials were found out.
type Explained struct {
	// Level is "on" or "all", or "off" if they could not be found out.
	Level string `json:"level"`
	// Calls counts the calls that were looked at.
	Calls int `json:"calls"`
	// NotLookedAt counts those of which nothing is known: on a file system that could keep nsrun waiting, or too many at once.
	NotLookedAt int `json:"not_looked_at,omitempty"`
	// Unavailable says why nothing was found out.
	Unavailable string `json:"unavailable,omitempty"`
}
