// Package netmessage is what nsrun and its network helper, cmd/nsrun-helper, say to each other over one socket of the kind SOCK_SEQPACKET.
//
// nsrun sends one [Start] by package wire, with a descriptor for each of its sockets. The helper answers with one [Event] in each packet, as JSON of at
// most [MaxEvent] bytes: first Ready or Error, then a Refusal at the first time that something is refused, a Question for what no rule allows, if it is to ask, Counts when it
// is asked for them, and at last Summary. Meanwhile nsrun may send an [Order] in each packet, of as many bytes; they are carried out one after the other. The helper stops serving, and sends that, when nsrun has shut its side of the socket down for writing, and ends at once when nsrun has ended.
//
// It protects against nothing: both ends are programs of nsrun's, run by the same user.
package netmessage

// MaxEvent bounds an event, and an order, in bytes.
const MaxEvent = 64 << 10

// The kinds of sockets. All belong to the sandbox's network namespace.
const (
	Redirect = "redirect" // a TCP listener to which all connections are redirected: SO_ORIGINAL_DST has where they were to go, of either family
	Direct   = "direct"   // a TCP listener of a single port, for all addresses: the local address of a connection is where it was to go; the loopback is refused
	DNS      = "dns"      // a UDP socket of port 53, for all addresses, with IP_PKTINFO or IPV6_RECVPKTINFO
	UDP      = "udp"      // a UDP socket of another port, likewise
	Proxy    = "proxy"    // a TCP listener on the loopback for HTTP CONNECT and SOCKS5
)

// Start is what is to be served.
type Start struct {
	Rules   []string `json:"rules"`   // in the form of netrule.Rule.String
	Sockets []string `json:"sockets"` // the kind of each descriptor that has come with it, in order
	Caps    Caps     `json:"caps"`
	Ask     *Asking  `json:"ask,omitempty"`
}

// Asking is what is to be asked about.
type Asking struct {
	MS   int64    `json:"ms"`             // how long a [Question] waits for its answer; 0 for none to be asked
	Most []string `json:"most,omitempty"` // rules: nothing is asked about what they do not allow
	All  bool     `json:"all,omitempty"`  // ask about everything; there are no Most
}

// Order is one packet of nsrun's after [Start].
type Order struct {
	Rules  *[]string `json:"rules,omitempty"` // instead of those before; connections that they do not allow are reset
	Add    []string  `json:"add,omitempty"`   // rules besides
	Ask    *Asking   `json:"ask,omitempty"`
	Answer *Answer   `json:"answer,omitempty"`
	Counts bool      `json:"counts,omitempty"` // is answered when the rest has been done
}

// Question is a connection of the sandbox that no rule allows, and that waits.
type Question struct {
	Serial  int    `json:"serial"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"` // if it has no name
	Port    int    `json:"port"`
	Rule    string `json:"rule"` // the rule that would allow it
}

// Answer is nsrun's to a [Question]. To allow it is good for the connections that wait, and for no later one.
type Answer struct {
	Serial int    `json:"serial"`
	Allow  bool   `json:"allow,omitempty"`
	Reason string `json:"reason,omitempty"` // of the refusal
}

// Caps bound what a sandbox can ask of the host. 0 takes the default.
type Caps struct {
	Connections int   `json:"connections,omitempty"` // that are open at once, UDP flows included; default 4096, and no more than the limit on open files has room for
	PerName     int   `json:"per_name,omitempty"`    // likewise, of one name or address; default 1024
	Bytes       int64 `json:"bytes,omitempty"`       // both ways, of one name or address; default none
	Idle        int   `json:"idle_s,omitempty"`      // seconds after which a connection without traffic is ended; default 3600; UDP flows end after 60
}

// Event is one packet of the helper's. One of its fields is set.
type Event struct {
	Ready    bool      `json:"ready,omitempty"`
	Error    string    `json:"error,omitempty"` // why nothing is served
	Refusal  *Refusal  `json:"refusal,omitempty"`
	Question *Question `json:"question,omitempty"`
	Counts   *Summary  `json:"counts,omitempty"` // what there is until now
	Summary  *Summary  `json:"summary,omitempty"`
}

// Refusal is one thing that was refused.
type Refusal struct {
	Op      string `json:"op"`                // "resolve", "connect", "send" of UDP, "request" of HTTP
	Name    string `json:"name,omitempty"`    // what was asked for, if it has a name
	Address string `json:"address,omitempty"` // of a literal, or what the name has been resolved to
	Port    int    `json:"port,omitempty"`
	Reason  string `json:"reason"`         // one of Reasons
	Detail  string `json:"detail"`         // in a sentence without a full stop: "the rules name no such host"
	Rule    string `json:"rule,omitempty"` // the rule to add, if one would allow it
	Count   int    `json:"count"`
	Serial  int    `json:"serial"` // the same for as long as Count goes up
}

// The reasons.
const (
	Unlisted     = "unlisted"     // no rule names it
	Port         = "port"         // a rule names it, with other ports
	Guarded      = "guarded"      // its address is one of the host's own, of a private network or of a metadata service
	Unresolvable = "unresolvable" // a rule names it, and the host cannot resolve it
	Unreachable  = "unreachable"  // a rule names it, and the host cannot connect to it
	Mismatch     = "mismatch"     // the name in TLS or HTTP is another one than the one that was looked up
	Malformed    = "malformed"    // HTTP, TLS or a proxy's request that cannot be read, or can be read in two ways
	TooMany      = "too-many"     // a cap is reached
)

// Summary is what has been reached, and what has been refused.
type Summary struct {
	Names    []Name    `json:"names,omitempty"`    // sorted; those that were reached most, at most 256
	Refusals []Refusal `json:"refusals,omitempty"` // the last first, at most 100
	Omitted  int       `json:"omitted,omitempty"`  // refusals, and names, that there was no room for
	Left     int       `json:"left,omitempty"`     // connections that were reset at the end before all their data was passed on
}

// Name counts what was reached by one name or address.
type Name struct {
	Name        string `json:"name"`
	Connections int    `json:"connections"`
	Sent        int64  `json:"sent"`     // bytes, from the sandbox
	Received    int64  `json:"received"` // bytes, to the sandbox
}

// Since returns what has been added to an earlier summary. Of more names than a summary has, some may be counted from the beginning.
func (s Summary) Since(before Summary) Summary {
	diff := Summary{Omitted: max(s.Omitted-before.Omitted, 0)}
	names := map[string]Name{}
	for _, n := range before.Names {
		names[n.Name] = n
	}
	for _, n := range s.Names {
		was := names[n.Name]
		n.Connections, n.Sent, n.Received = n.Connections-was.Connections, n.Sent-was.Sent, n.Received-was.Received
		if n.Connections != 0 || n.Sent != 0 || n.Received != 0 {
			diff.Names = append(diff.Names, n)
		}
	}
	counts := map[int]int{}
	for _, r := range before.Refusals {
		counts[r.Serial] = r.Count
	}
	for _, r := range s.Refusals {
		if r.Count -= counts[r.Serial]; r.Count > 0 {
			diff.Refusals = append(diff.Refusals, r)
		}
	}
	return diff
}
