package denial

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/nsrun/nsrun/seccomp"
)

const (
	mostKept     = 2 << 20 // bytes of denials that are counted
	kindSize     = 768     // bytes of one, without its texts: the denial twice, its change, and its place in the map
	mostReported = 100     // kinds of them in a result
)

// found collects denials: each kind of them once, with its count.
type found struct {
	mu      sync.Mutex
	denials map[result.Denial]*one
	order   int
	size    int // in bytes
	missed  int
}

type one struct {
	result.Denial
	last int
}

func newFound() *found { return &found{denials: map[result.Denial]*one{}} }

// add counts a denial; nil is none.
func (f *found) add(e event, d *result.Denial) {
	if d == nil {
		return
	}
	key := *d
	key.Change = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order++
	have := f.denials[key]
	if have == nil {
		size := kindSize + len(d.Path) + len(d.Host)
		if d.Change != nil {
			size += len(d.Change.Flag) + len(d.Change.Manifest)
		}
		if f.size += size; f.size > mostKept {
			f.size = mostKept
			f.missed++
			return
		}
		have = &one{Denial: *d}
		have.FirstComm = e.comm
		f.denials[key] = have
	}
	have.Count++
	have.last = f.order
}

// unknown counts calls of which nothing is known.
func (f *found) unknown(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed += n
}

// all returns the denials, the last first, and how many calls nothing is known of.
func (f *found) all() (denials []result.Denial, missed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, named := make([]*one, 0, len(f.denials)), false
	for _, d := range f.denials {
		all = append(all, d)
		named = named || d.Op == resolve && d.Path != ""
	}
	if named { // who asks for a name has connected to its server before, which says less
		all = slices.DeleteFunc(all, func(d *one) bool { return d.Op == resolve && d.Path == "" })
	}
	slices.SortFunc(all, func(a, b *one) int { return b.last - a.last })
	for i, d := range all {
		if i == mostReported {
			break
		}
		denials = append(denials, d.Denial)
	}
	return denials, f.missed
}

// tried are calls that programs try, and do without.
var tried = []string{"io_uring_setup", "clone3", "rseq", "set_mempolicy", "mbind", "get_mempolicy", "perf_event_open", "add_key", "keyctl",
	"request_key", "bpf", "userfaultfd", "pidfd_getfd", "kcmp", "acct", "quotactl", "pkey_alloc"}

// refused is a system call that the filters refuse.
func (w *Watch) refused(e event) *result.Denial {
	if !w.All && slices.Contains(tried, e.name) {
		return nil
	}
	d := &result.Denial{Kind: "syscall", Op: e.name, Rule: "seccomp"}
	if e.name == "" {
		d.Op = "a call that nsrun does not know"
	}
	if e.name == "socket" || e.name == "socketpair" {
		d.Kind, d.Path = "socket", family(uint32(e.args[0]))
	}
	d.Change = w.allows(e, d.Path)
	return d
}

// allows is what allows a call that the filters refuse, if anything does. Each filter has a say, so only the built-in one can be exchanged.
func (w *Watch) allows(e event, path string) *result.Change {
	if w.Plan.Seccomp == nil {
		return nil
	}
	if slices.Contains(w.Plan.Seccomp.Refuse, seccomp.RefuseInet) && strings.HasPrefix(path, "AF_INET") {
		return hostNetwork()
	}
	own, _ := seccomp.Builtin(w.Plan.Seccomp.Filter, w.arch) // none if that is off
	others := slices.DeleteFunc(slices.Clone(w.Filters), func(f seccomp.Filter) bool { return bytes.Equal(f.Bytes(), own.Bytes()) })
	nr, _ := w.arch.Number(e.name)
	for _, name := range []string{"default", "build"} {
		f, err := seccomp.Builtin(name, w.arch)
		if err != nil || name == w.Plan.Seccomp.Filter {
			continue
		}
		a, err := seccomp.Decide(seccomp.Data{NR: nr, Arch: w.arch.Audit(), Args: [6]uint64{e.args[0], e.args[1]}}, append(others, f)...)
		if err == nil && a == seccomp.Allow {
			return &result.Change{Flag: "--seccomp " + name, Manifest: `"seccomp": "` + name + `"`}
		}
	}
	return nil
}

// hostNetwork is what allows a connection where there is no network.
func hostNetwork() *result.Change {
	return &result.Change{Flag: "--net host", Manifest: `"network": "host"`}
}

// family is the name of a family of sockets: socket(2).
func family(n uint32) string {
	names := map[uint32]string{1: "AF_UNIX", 2: "AF_INET", 10: "AF_INET6", 16: "AF_NETLINK", 17: "AF_PACKET", 31: "AF_BLUETOOTH", 38: "AF_ALG", 40: "AF_VSOCK", 44: "AF_XDP"}
	if name, ok := names[n]; ok {
		return name
	}
	return "family " + strconv.FormatUint(uint64(n), 10)
}
