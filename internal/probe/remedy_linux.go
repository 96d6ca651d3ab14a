package probe

import (
	"slices"
	"strings"

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
func (d denial) withoutNamespace() bool {
	n := namespace(d.name)
	return n.ns != "" && d.has("proc/self/status") && !d.has("proc/self/ns/"+n.ns)
}

// zero is the setting in /proc/sys/user that permits none of the namespaces that a probe of this feature makes, or empty.
func (d denial) zero() string {
	involved := []facts.Name{d.name, facts.UserNS}
	switch d.name {
	case facts.ProcMount:
		involved = append(involved, facts.MountNS, facts.PidNS)
	case facts.MountAPI, facts.MountSetattr, facts.Overlay:
		involved = append(involved, facts.MountNS)
	case facts.Nftables:
		involved = append(involved, facts.NetNS)
	}
	for _, one := range involved {
		if setting := namespace(one).sysctl; setting != "" && d.text("proc/sys/user/"+setting) == "0" {
			return setting
		}
	}
	return ""
}

// onHost says who has to change a setting of the kernel, and where.
func (b blamer) onHost(fix string) string {
	readOnly := func(m mount) bool { return m.point == "/proc/sys" && strings.HasPrefix(m.options, "ro") }
	if b.InContainer() || strings.Contains(fix, "sysctl -w") && slices.ContainsFunc(b.mounts(), readOnly) {
		return "on the host, as root: " + fix
	}
	return b.asRoot(fix)
}

func (b blamer) asRoot(fix string) string {
	if b.UID != 0 {
		return "as root: " + fix
	}
	return fix
}

// filtered reports whether a filter that may have refused a call is on this process. That of WSL 2's mirrored networking looks at bind and
// listen alone.
func (b blamer) filtered() bool {
	return b.status("self", "Seccomp") == "2" && !(b.In("wsl2-mirrored") && b.status("self", "Seccomp_filters") == "1")
}

// remedy is what to do in some surroundings about the seccomp filter on this process, mounts over /proc, the AppArmor profile on it, and
// AppArmor's restriction on user namespaces. A profile against that is loaded on the host, where the path of a program in a container is another.
type remedy struct{ in, filter, masks, profile, restriction string }

var remedies = [...]remedy{
	{"kubernetes",
		"set securityContext.seccompProfile.type: Unconfined in the pod's specification",
		"set securityContext.procMount: Unmasked and hostUsers: false in the pod's specification",
		"set securityContext.appArmorProfile.type: Unconfined in the pod's specification",
		"load an AppArmor profile that allows userns on the node, and set securityContext.appArmorProfile to it"},
	{"podman",
		"start the container with podman run --security-opt seccomp=unconfined",
		"start the container with podman run --security-opt unmask=ALL",
		"start the container with podman run --security-opt apparmor=unconfined",
		"load an AppArmor profile that allows userns on the host, and start the container with podman run --security-opt apparmor=PROFILE"},
	{"docker",
		"start the container with docker run --security-opt seccomp=unconfined",
		"start the container with docker run --user 1000 --security-opt systempaths=unconfined (root there could write /proc/sys)",
		"start the container with docker run --security-opt apparmor=unconfined",
		"load an AppArmor profile that allows userns on the host, and start the container with docker run --security-opt apparmor=PROFILE"},
	{"lxc",
		"set lxc.seccomp.profile to nothing in the container's configuration",
		"set security.nesting=true on the container",
		"set security.nesting=true on the container",
		"load an AppArmor profile that allows userns on the host, and set lxc.apparmor.profile to it"},
}

// remedy is that of the first of the surroundings that applies.
func (b blamer) remedy() remedy {
	if i := slices.IndexFunc(remedies[:], func(r remedy) bool { return b.In(r.in) }); i >= 0 {
		return remedies[i]
	}
	return remedy{
		filter:      "start it without the seccomp filter, or with one that allows clone, unshare and mount",
		masks:       "unmount what is mounted below /proc",
		profile:     "let the AppArmor profile " + b.apparmor() + " allow userns, capability and mount",
		restriction: b.Program.AppArmorFix(),
	}
}
