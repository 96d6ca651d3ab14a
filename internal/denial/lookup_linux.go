package denial

import (
	"encoding/json"
	"errors"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// looker looks up what events asked for. It runs on a thread of its own, which has the rights of the command's user and no more.
type looker struct {
	*Watch
	host   *host
	root   int     // as the last event has it
	before []event // without one
	size   int     // of seen, in bytes

	realHome string // without links
}

const mostBefore = 256

// lookUp looks up events until there are no more. Its thread has no capabilities meanwhile, and does not end, because it may be the one that has
// forked the sandbox, which would end with it (PR_SET_PDEATHSIG(2const)).
func (w *Watch) lookUp() {
	defer close(w.looked)
	defer w.ask.Close()
	defer w.leave()
	runtime.LockOSThread()
	header, had := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	err := unix.Capget(&header, &had[0])
	if err == nil {
		none := had
		none[0].Effective, none[1].Effective = 0, 0
		err = unix.Capset(&header, &none[0])
	}
	if err != nil {
		runtime.UnlockOSThread()
		w.queue.each(func(event) bool { w.found.unknown(1); return false })
		return
	}
	defer func() {
		if unix.Capset(&header, &had[0]) == nil {
			runtime.UnlockOSThread()
		}
	}()
	h, err := newHost()
	l := &looker{Watch: w, host: h, realHome: w.Home}
	if err == nil {
		if fd, err := h.open(w.Home); err == nil {
			l.realHome = reached(fd)
			unix.Close(fd)
		}
	}
	w.seen = map[[3]string]bool{}
	w.queue.each(func(e event) bool {
		if err != nil {
			w.found.unknown(1)
			return false
		}
		return l.take(e)
	})
	l.giveUp(len(l.before))
	if err == nil {
		h.close()
	}
}

// take looks up one event, and those that came before there was a command to look into, which are kept: its process cannot be looked into before exec.
func (l *looker) take(e event) (kept bool) {
	if e.errno != 0 || e.dir == inet {
		l.look(e)
		return false
	}
	if l.root = e.root; l.root < 0 {
		if l.before = append(l.before, e); len(l.before) > mostBefore {
			l.giveUp(1)
		}
		return true
	}
	for _, b := range l.before {
		l.look(b)
		l.queue.done(1)
	}
	l.before = nil
	l.look(e)
	return false
}

// giveUp gives up the first n events that have come before there was a command.
func (l *looker) giveUp(n int) {
	clear(l.before[:n])
	l.before = l.before[n:]
	l.found.unknown(n)
	l.queue.done(n)
}

// enter opens the root that a process has. Before exec it cannot be looked into: its memory is that of the sandbox's pid 1.
func (w *Watch) enter(pid uint32) bool {
	at := "/proc/" + strconv.Itoa(int(pid)) + "/"
	ns, err := unix.Open(at+"ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	root, err := unix.Open(at+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(ns)
		return false
	}
	w.ns, w.root = ns, root
	return true
}

// leave closes what enter has opened.
func (w *Watch) leave() {
	closeFD(w.root)
	closeFD(w.ns)
	w.root, w.ns = -1, -1
}

const (
	mostSeen = 4 << 20 // bytes of the paths that are remembered
	seenSize = 200     // bytes of one, without its text: its place in the map, and what was asked for
)

// remember notes that nothing was refused, as long as there is room.
func (l *looker) remember(key [3]string) {
	if l.size += seenSize + len(key[1]); l.size <= mostSeen {
		l.seen[key] = true
	}
}

func (l *looker) look(e event) {
	if e.errno != 0 {
		l.found.add(e, l.refused(e))
		return
	}
	if e.dir == inet {
		d, err := l.network(e)
		if err != nil || e.unclear {
			l.found.unknown(1)
			return
		}
		l.found.add(e, d)
		return
	}
	name := e.path
	if name[0] != '/' {
		if e.dir == "" {
			l.found.unknown(1)
			return
		}
		name = e.dir + "/" + name
	}
	key := [3]string{e.name, name, e.asked()}
	if l.seen[key] {
		return
	}
	d, err := l.path(e, name)
	switch {
	case err != nil:
		l.found.unknown(1)
	case d != nil:
		l.found.add(e, d)
	default:
		l.remember(key)
	}
}

// path returns what was refused of a path, or nil.
func (l *looker) path(e event, name string) (*result.Denial, error) {
	if clean := path.Clean(name); policy.Inside(clean, "/proc") || policy.Inside(clean, "/sys") || policy.Inside(clean, "/dev") && !l.Plan.Bare() {
		return nil, nil // the sandbox's own, which nothing can be granted of
	}
	inside, err := l.inside(name, e.nofollow)
	if errors.Is(err, unix.ENAMETOOLONG) {
		return nil, nil // on the host likewise
	}
	defer closeFD(inside)
	change, creates := e.call.act == entry || e.call.act == bindTo, e.call.act == open && e.flags&unix.O_CREAT != 0
	if change && err == nil && e.call.creates {
		return nil, nil // it is there already, or was made
	}
	if err != nil && !answers(err) {
		return nil, err
	}
	missing := err != nil && !errors.Is(err, unix.ELOOP)
	at, target := inside, name
	if change || err != nil && creates { // what counts is the directory
		target = path.Dir(strings.TrimRight(name, "/"))
		parent, perr := l.inside(target, false)
		defer closeFD(parent)
		switch {
		case perr != nil && !answers(perr):
			return nil, perr
		case perr == nil && !change && !l.readOnly(parent): // a link that leads to what is hidden
			at, target = -1, name
		case perr == nil:
			if change && !e.call.creates && err != nil && !l.readOnly(parent) {
				return nil, nil // there is nothing, or was: the command may have made and removed it
			}
			at, missing = parent, false
		default:
			at = -1
		}
	}
	switch {
	case at >= 0 && e.call.act == inode && e.name != "truncate" && l.Plan.Bare():
		return nil, nil // Landlock has no right for it
	case err == nil && e.call.act == open && !l.Plan.Bare() && isDevice(at) && opensDevices(at) && l.granted(path.Clean(name)):
		return nil, nil // it is opened, whatever it covers
	case err == nil && l.covers(e, at):
		return l.masked(e, name)
	case at >= 0 && (e.writes(l.Plan.Bare()) || err != nil):
		return l.readOnlyDenial(e, name, target, at)
	case at >= 0:
		return l.present(e, name, at), nil
	case !missing:
		return nil, nil
	}
	return l.hidden(e, name, target)
}

// inside opens what a path of the command leads to, for looking.
func (l *looker) inside(name string, nofollow bool) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if nofollow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat2(l.root, name, how)
	for tries := 0; tries < 32 && errors.Is(err, unix.EAGAIN); tries++ { // a path with "..", while something is renamed or mounted: openat2(2)
		fd, err = unix.Openat2(l.root, name, how)
	}
	return fd, err
}

func closeFD(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// hidden is what the host has, and the sandbox has not.
func (l *looker) hidden(e event, name, target string) (*result.Denial, error) {
	fd, err := l.wouldLet(e, name, target)
	if fd < 0 {
		return nil, err
	}
	defer unix.Close(fd)
	if stays, err := l.stays(e, name, target); !stays {
		return nil, err
	}
	if l.secret(name, fd) {
		return &result.Denial{Kind: "secret", Op: e.name, Rule: "view"}, nil
	}
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	d := &result.Denial{Kind: "fs", Op: e.name, Path: name, Inside: "nothing", Host: reached(fd), Rule: "view"}
	switch socket := st.Mode&unix.S_IFMT == unix.S_IFSOCK; {
	case e.call.act == execute:
		d.Kind, d.Change = "exec", grant("--ro", "extra_ro", path.Clean(target))
	case socket:
		d.Change = grant("--socket", "sockets", path.Clean(target))
	case e.writes(false) || target != name:
		d.Change = l.writable(grantable(target, st.Mode))
	default:
		d.Change = grant("--ro", "extra_ro", grantable(target, st.Mode))
	}
	return d, nil
}

// secret reports whether a path, or what is open there, lies where keys are kept: a link may lead there, and the home directory may be one.
func (l *looker) secret(name string, fd int) bool {
	at := reached(fd)
	return policy.Secret(path.Clean(name), l.Home) || policy.Secret(at, l.Home) || policy.Secret(at, l.realHome) || plan.SecretEtc(at) && !public(fd)
}

// readOnly reports whether the sandbox keeps what is open from being written.
func (l *looker) readOnly(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return st.Flags&unix.ST_RDONLY != 0 || !l.allowed(fd, landlock.WriteFile)
}

// allowed reports whether Landlock's rules give a right, where they are all that confines files. Where there are mounts, these say the same.
func (l *looker) allowed(fd int, right landlock.Access) bool {
	if !l.Plan.Bare() || l.Plan.Landlock == nil {
		return true
	}
	name := reached(fd)
	for _, r := range l.Rules {
		if r.Access&right != 0 && policy.Inside(name, r.Path) {
			return true
		}
	}
	return name == ""
}

// granted reports whether Landlock's rules let a file be read by that path, whatever is mounted there. Of root's /etc they have entry by entry.
func (l *looker) granted(name string) bool {
	return l.Plan.Landlock == nil || slices.ContainsFunc(l.Rules, func(r landlock.PathRule) bool {
		return r.Access&landlock.ReadFile != 0 && policy.Inside(name, r.Path)
	})
}

// readOnlyDenial is a change of what is shown and cannot be changed.
func (l *looker) readOnlyDenial(e event, name, target string, at int) (*result.Denial, error) {
	if !l.readOnly(at) {
		return nil, nil
	}
	fd, err := l.wouldLet(e, name, target)
	if fd < 0 {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || l.Plan.Landlock == nil && !written(st.Mode) {
		return nil, nil // only Landlock refuses to write to a FIFO, or to a device
	}
	rule := "read-only"
	if l.Plan.Bare() {
		rule = "landlock"
	}
	if l.secret(name, fd) {
		return &result.Denial{Kind: "secret", Op: e.name, Rule: rule}, nil
	}
	return &result.Denial{Kind: "fs", Op: e.name, Path: name, Inside: "read-only", Host: reached(fd), Rule: rule, Change: l.writable(grantable(target, st.Mode))}, nil
}

// present is what was refused of what is shown: privileges of programs, and reading by Landlock's rules alone.
func (l *looker) present(e event, name string, at int) *result.Denial {
	var st unix.Stat_t
	if unix.Fstat(at, &st) != nil {
		return nil
	}
	file := st.Mode&unix.S_IFMT == unix.S_IFREG
	if e.call.act == execute && file && (st.Mode&unix.S_ISUID != 0 || st.Mode&unix.S_ISGID != 0 && st.Mode&unix.S_IXGRP != 0 || hasCapabilities(at)) {
		return &result.Denial{Kind: "setuid", Op: e.name, Path: name, Rule: "no_new_privs"}
	}
	right := landlock.ReadFile
	switch {
	case e.call.act == look, e.call.act == connect, e.call.act == inode:
		return nil
	case e.call.act == execute:
		right = landlock.Execute
	case !file && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		right = landlock.ReadDir
	}
	if e.flags&unix.O_PATH != 0 || l.allowed(at, right) || !lets(e, at, false) {
		return nil
	}
	if l.secret(name, at) {
		return &result.Denial{Kind: "secret", Op: e.name, Rule: "landlock"}
	}
	kind := "fs"
	if e.call.act == execute {
		kind = "exec"
	}
	return &result.Denial{Kind: kind, Op: e.name, Path: name, Inside: "nothing", Host: reached(at), Rule: "landlock", Change: grant("--ro", "extra_ro", path.Clean(name))}
}

// network is an address that is not reached, or a name that is not known, without a network.
func (l *looker) network(e event) (*result.Denial, error) {
	if e.path == "" || l.Plan.Network != string(policy.NetworkNone) {
		return nil, nil
	}
	if e.port != 0 {
		if there, err := listens("self", e.port); !there {
			return nil, err // nobody listens there on the host either
		}
	}
	op, what := e.name, e.path
	if what == anyName {
		op, what = resolve, ""
	} else if e.call.act == sendName {
		op = resolve
	}
	return &result.Denial{Kind: "net", Op: op, Path: what, Rule: "network", Change: hostNetwork()}, nil
}

const resolve = "resolve" // the operation of a denial of a name

// grant is a change that grants a path, if there is one that JSON can say.
func grant(flag, key, at string) *result.Change {
	if at == "" || !utf8.ValidString(at) || policy.Inside(at, "/dev") { // the backend landlock shows the host's, and nothing of it can be granted
		return nil
	}
	list, err := json.Marshal([]string{at})
	if err != nil {
		return nil
	}
	return &result.Change{Flag: flag + " " + quoted(at), Manifest: strconv.Quote(key) + ": " + string(list)}
}

// writable is a grant to write, if that is no mistake.
func (l *looker) writable(at string) *result.Change {
	if at == "" {
		return nil
	}
	if why, _ := policy.Mistake(at, l.Home); why != "" {
		return nil
	}
	return grant("--rw", "extra_rw", at)
}

// quoted is a word for a shell.
func quoted(s string) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._+-@%:,", r)
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
