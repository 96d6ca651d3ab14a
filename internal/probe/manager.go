package probe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
)

// booted reports whether systemd runs this host: sd_booted(3).
func (h files) booted() bool { return h.has("run/systemd/system") }

// managers lists the sockets of the caller's service manager, or of a bus that it is on; for root the system's before them, as root's
// environment can name another user's.
func (h files) managers(uid int) []string {
	dir := h.env("XDG_RUNTIME_DIR")
	if !path.IsAbs(dir) {
		dir = fmt.Sprintf("/run/user/%d", uid)
	}
	sockets := []string{path.Join(dir, "systemd/private"), path.Join(dir, "bus")}
	if uid == 0 {
		sockets = append([]string{"/run/systemd/private"}, sockets...)
	}
	return sockets
}

func isBus(socket string) bool { return path.Base(socket) == "bus" }

// manager finds a service manager that can be asked for a place in the tree of version 2. It looks at files only: whether anybody answers
// is for whoever asks to find out.
func (h files) manager(uid int, may func(path string) bool) *facts.Manager {
	if !h.booted() {
		return nil
	}
	all := h.mountsLike(" - cgroup2 ")
	// A part of the tree may not be the one that the manager is in.
	i := slices.IndexFunc(all, func(m mount) bool { return m.kind == "cgroup2" && m.root == "/" })
	if i < 0 {
		return nil
	}
	m := facts.Manager{Tree: all[i].point}
	for _, socket := range h.managers(uid) {
		if may(socket) {
			m.Socket, m.Bus = socket, isBus(socket)
			break
		}
	}
	if m.Socket == "" {
		return nil
	}
	top := strings.TrimPrefix(m.Tree, "/")
	has := ""
	if m.Socket != "/run/systemd/private" { // what a user's manager hands on was delegated to it: user@.service(5)
		has = h.text(fmt.Sprintf("%s/user.slice/user-%d.slice/user@%d.service/cgroup.controllers", top, uid, uid))
	}
	if has == "" {
		has = h.text(top + "/cgroup.controllers")
	}
	for _, c := range limited {
		if slices.Contains(strings.Fields(has), c) {
			m.Controllers = append(m.Controllers, c)
		}
	}
	if len(m.Controllers) == 0 {
		return nil
	}
	return &m
}
