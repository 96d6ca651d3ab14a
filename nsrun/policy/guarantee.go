package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Guarantees are the names that Policy.Require may list. What each promises, and which backend gives it, is in package plan.
var Guarantees = [...]string{
	"sandbox", "files", "view", "places", "private_tmp", "tmp_bounds", "devices", "device_modes", "processes", "process_view", "init",
	"ownership", "kill_tree", "network", "loopback", "unix_sockets", "ipc", "hostname", "identity", "privileges", "landlock",
	"seccomp", "keyring", "environment", "descriptors", "limits", "terminal", "status",
}

// RequireTools in Policy.Require refuses what a preset cannot show. It is no guarantee of a backend's.
const RequireTools = "tools"

// Requirements returns the words that Policy.Require may list.
func Requirements() []string { return append(Guarantees[:], RequireTools) }

// checkRequire says which names are no guarantees, and which come twice.
func (p Policy) checkRequire(say sayer) {
	for i, name := range p.Require {
		switch field := fmt.Sprintf("require[%d]", i); {
		case !slices.Contains(Requirements(), name):
			if near, ok := Nearest(name, Requirements()); ok {
				say(field, "%q is not a guarantee; did you mean %s?", name, near)
				continue
			}
			say(field, "%q is not a guarantee; they are %s", name, strings.Join(Requirements(), ", "))
		case slices.Contains(p.Require[:i], name):
			say(field, "%s is given twice", name)
		}
	}
}

// Requiring returns p with further required guarantees; those that it requires already are not repeated.
func (p Policy) Requiring(names ...string) Policy {
	p.Require = slices.Clone(p.Require)
	for _, name := range names {
		if !slices.Contains(p.Require, name) {
			p.Require = append(p.Require, name)
		}
	}
	return p
}
