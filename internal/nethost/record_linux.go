package nethost

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nsrun/nsrun/internal/netmessage"
)

const (
	maxRefusals = 100     // that are kept
	maxEvents   = 1000    // that a run reports as they happen
	maxNames    = 256     // that a summary has
	maxCounted  = 1 << 17 // names and addresses that are counted
)

// record counts what is reached and what is refused.
type record struct {
	event func(netmessage.Event)
	caps  netmessage.Caps

	mu       sync.Mutex
	refusals []*netmessage.Refusal // the last one last
	omitted  int
	events   int
	reached  map[string]*reached
	open     int
	none     chan struct{} // closed when open becomes zero; nil if nobody waits
}

// reached counts the traffic of one name or address.
type reached struct {
	name           string
	open, total    int          // guarded by record.mu
	sent, received atomic.Int64 // sent from the sandbox
}

func newRecord(caps netmessage.Caps, event func(netmessage.Event)) *record {
	return &record{event: event, caps: caps, reached: map[string]*reached{}}
}

// refuse counts a refusal, and reports it if it is the first of its kind.
func (r *record) refuse(x netmessage.Refusal) {
	r.mu.Lock()
	same := func(y *netmessage.Refusal) bool {
		return x.Op == y.Op && x.Name == y.Name && x.Address == y.Address && x.Port == y.Port && x.Reason == y.Reason
	}
	if i := slices.IndexFunc(r.refusals, same); i >= 0 {
		known := r.refusals[i]
		known.Count++
		known.Detail, known.Rule = x.Detail, x.Rule // those of the last time
		r.refusals = append(slices.Delete(r.refusals, i, i+1), known)
		r.mu.Unlock()
		return
	}
	x.Count = 1
	if len(r.refusals) == maxRefusals {
		r.refusals = slices.Delete(r.refusals, 0, 1)
		r.omitted++
	}
	r.events++
	x.Serial = r.events
	r.refusals = append(r.refusals, &x)
	report := r.events <= maxEvents && r.event != nil
	reported := x
	r.mu.Unlock()
	if report {
		r.event(netmessage.Event{Refusal: &reported})
	}
}

// admit counts a connection or flow that begins, unless the cap on all of them is reached. Then leave counts its end.
func (r *record) admit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= r.caps.Connections {
		return false
	}
	r.open++
	return true
}

func (r *record) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open--; r.open == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// ended returns a channel that is closed when no connection or flow is open. It is called when none begins any more.
func (r *record) ended() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	none := make(chan struct{})
	if r.open == 0 {
		close(none)
	} else {
		r.none = none
	}
	return none
}

// left returns how many connections and flows are open.
func (r *record) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// enter counts a connection to a name, unless one of its caps is reached. The caller calls exit at the connection's end.
func (r *record) enter(name string) (n *reached, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.reached[name]
	if n == nil {
		if len(r.reached) >= maxCounted {
			return nil, false
		}
		n = &reached{name: name}
		r.reached[name] = n
	}
	if n.open >= r.caps.PerName || n.room(r.caps.Bytes) == 0 {
		return nil, false
	}
	n.open++
	return n, true
}

func (r *record) exit(n *reached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.open--
}

// connected counts a connection that the host has made.
func (r *record) connected(n *reached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.total++
}

// room returns how many bytes the name has left of a cap.
func (n *reached) room(limit int64) int64 {
	const plenty = 1 << 40
	if limit <= 0 {
		return plenty
	}
	return max(limit-n.sent.Load()-n.received.Load(), 0)
}

// summary returns what has been counted until now.
func (r *record) summary() netmessage.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := netmessage.Summary{Omitted: r.omitted}
	for _, n := range r.reached {
		if n.total > 0 {
			s.Names = append(s.Names, netmessage.Name{Name: n.name, Connections: n.total, Sent: n.sent.Load(), Received: n.received.Load()})
		}
	}
	if len(s.Names) > maxNames {
		slices.SortFunc(s.Names, func(a, b netmessage.Name) int {
			return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Name, b.Name))
		})
		s.Omitted += len(s.Names) - maxNames
		s.Names = s.Names[:maxNames]
	}
	slices.SortFunc(s.Names, func(a, b netmessage.Name) int { return cmp.Compare(a.Name, b.Name) })
	for _, x := range slices.Backward(r.refusals) {
		s.Refusals = append(s.Refusals, *x)
	}
	return s
}
