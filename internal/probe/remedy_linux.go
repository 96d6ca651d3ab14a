package probe

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/nsrun/facts"
)

// namespace finds the row of a feature; that of one that is no namespace is empty.
func namespace(name facts.Name) (n struct{ sysctl, ns, of string }) {
	for _, row := range names {
		if row.feature == name {
			n.sysctl, n.ns, n.of = row.sysctl, row.ns, row.of
		}
	}
	return n
}

// withoutNamespace reports whether the kernel has not got this kind: then there is no file for it in /proc/self/ns.
func withoutNamespace(b blamer, name facts.Name, _ *fault.Error) bool {
	n := namespace(name)
	return n.ns != "" && b.has("proc/self/status") && !b.has("proc/self/ns/"+n.ns)
}

// zero is the setting in /proc/sys/user that permits none of the namespaces that a probe of this feature makes, or empty.
func (b blamer) zero(name facts.Name) string {
	involved := []facts.Name{name, facts.UserNS}
	switch name {
	case facts.ProcMount:
		involved = append(involved, facts.MountNS, facts.PidNS)
	case facts.MountAPI, facts.MountSetattr, facts.Overlay:
		involved = append(involved, facts.MountNS)
	case facts.Nftables:
		involved = append(involved, facts.NetNS)
	}
	for _, one := range involved {
		if setting := namespace(one).sysctl; setting != "" && b.text("proc/sys/user/"+setting) == "0" {
			return setting
		}
	}
	return ""
}

// onHost says who has to change a setting of the kernel, and where.
func (b blamer) onHost(fix string) string {
	readOnly := func(m mount) bool { return m.point == "/proc/sys" && strings.HasPrefix(m.options, "ro") }
	if b.in("docker", "podman", "kubernetes", "lxc", "container") || strings.Contains(fix, "sysctl -w") && slices.ContainsFunc(b.mounts(), readOnly) {
		return "on the host, as root: " + fix
	}
	return b.asRoot(fix)
}

func (b blamer) asRoot(fix string) string {
	if b.uid != 0 {
		return "as root: " + fix
	}
	return fix
}

// filtered reports whether a filter that may have refused a call is on this process. That of WSL 2's mirrored networking looks at bind and
// listen alone.
func (b blamer) filtered() bool { return b.seccomp() && !(b.in("wsl2-mirrored") && b.filters() == 1) }

// remedy is what to do in the first of the surroundings that applies; the last row is for all others.
type remedy struct{ in, fix string }

func (b blamer) choose(rows []remedy) string {
	for _, row := range rows[:len(rows)-1] {
		if b.in(row.in) {
			return row.fix
		}
	}
	return rows[len(rows)-1].fix
}

func (b blamer) withoutFilter() string {
	return b.choose([]remedy{
		{"kubernetes", "set securityContext.seccompProfile.type: Unconfined in the pod's specification"},
		{"podman", "start the container with podman run --security-opt seccomp=unconfined"},
		{"docker", "start the container with docker run --security-opt seccomp=unconfined"},
		{"lxc", "set lxc.seccomp.profile to nothing in the container's configuration"},
		{"", "start it without the seccomp filter, or with one that allows clone, unshare and mount"},
	})
}

func (b blamer) unmasked() string {
	return b.choose([]remedy{
		{"kubernetes", "set securityContext.procMount: Unmasked and hostUsers: false in the pod's specification"},
		{"podman", "start the container with podman run --security-opt unmask=ALL"},
		{"docker", "start the container with docker run --user 1000 --security-opt systempaths=unconfined (root there could write /proc/sys)"},
		{"lxc", "set security.nesting=true on the container"},
		{"", "unmount what is mounted below /proc"},
	})
}

func (b blamer) unconfined() string {
	return b.choose([]remedy{
		{"kubernetes", "set securityContext.appArmorProfile.type: Unconfined in the pod's specification"},
		{"podman", "start the container with podman run --security-opt apparmor=unconfined"},
		{"docker", "start the container with docker run --security-opt apparmor=unconfined"},
		{"lxc", "set security.nesting=true on the container"},
		{"", "let the AppArmor profile " + b.apparmor() + " allow userns, capability and mount"},
	})
}

// exempted is what helps against AppArmor's restriction on user namespaces: a profile for nsrun alone. A profile is loaded on the host, where the
// path of a program in a container is another.
func (b blamer) exempted() string {
	return b.choose([]remedy{
		{"kubernetes", "load an AppArmor profile that allows userns on the node, and set securityContext.appArmorProfile to it"},
		{"podman", "load an AppArmor profile that allows userns on the host, and start the container with podman run --security-opt apparmor=PROFILE"},
		{"docker", "load an AppArmor profile that allows userns on the host, and start the container with docker run --security-opt apparmor=PROFILE"},
		{"lxc", "load an AppArmor profile that allows userns on the host, and set lxc.apparmor.profile to it"},
		{"", b.program.AppArmorFix()},
	})
}
