package probe

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
)

// files is what the files and variables of a host say: those of this one, or a tree made up for a test. What cannot be read says nothing.
type files struct {
	fs.FS
	env func(string) string
}

// text reads a file by its name without the leading slash.
func (h files) text(name string) string {
	data, err := fs.ReadFile(h.FS, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (h files) has(name string) bool {
	_, err := fs.Stat(h.FS, name)
	return err == nil
}

// mount is a line of /proc/self/mountinfo: proc_pid_mountinfo(5).
type mount struct{ id, parent, root, point, options, kind, super string }

func (h files) mounts() []mount { return h.mountsLike(" - ") }

// mountsLike are those whose lines hold a text.
func (h files) mountsLike(some string) (found []mount) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.SplitSeq(h.text("proc/self/mountinfo"), "\n") {
		if !strings.Contains(line, some) {
			continue
		}
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		found = append(found, mount{l[0], l[1], unescape.Replace(l[3]), unescape.Replace(l[4]), l[5], r[0], r[2]})
	}
	return found
}

// chroot reports whether the caller sees a part of a mount tree: then nothing is mounted at its root, and user_namespaces(7) says EPERM.
func (h files) chroot() bool {
	all := h.mounts()
	return len(all) > 0 && !slices.ContainsFunc(all, func(m mount) bool { return m.point == "/" })
}

// overRoot is a mount on the caller's own root, which the caller does not see: then both show as mounted at /. After a pivot_root, or
// where the caller is in the upper one, the lower one does not show.
func (h files) overRoot() (over mount) {
	all := h.mounts()
	for _, m := range all {
		if m.point == "/" && slices.ContainsFunc(all, func(below mount) bool { return below.id == m.parent && below.id != m.id && below.point == "/" }) {
			over = m // the topmost comes last
		}
	}
	return over
}

// mirrored reports, in WSL 2, whether that is in its mirrored networking mode: then there is an interface loopback0, and a filter that notifies
// WSL's init is on every process (https://github.com/microsoft/WSL/issues/9548). In a container, pid 1 has the container's filter.
func (h files) mirrored(container bool) bool {
	return h.has("sys/class/net/loopback0") || !container && h.status("1", "Seccomp") == "2"
}

// status is a field of a process's status, or empty: proc_pid_status(5). Seccomp is 2 under a filter; there is Seccomp_filters since Linux 5.9.
func (h files) status(pid, field string) string {
	for line := range strings.SplitSeq(h.text("proc/"+pid+"/status"), "\n") {
		if value, ok := strings.CutPrefix(line, field+":\t"); ok {
			return value
		}
	}
	return ""
}

// masks lists what is mounted over places below /proc: mount_too_revealing() in fs/namespace.c then refuses a new procfs. The
// directory for binfmt_misc is an empty one and does not count.
func (h files) masks() (over []string) {
	for _, m := range h.mounts() {
		if strings.HasPrefix(m.point, "/proc/") && m.point != "/proc/sys/fs/binfmt_misc" && !slices.Contains(over, m.point) {
			over = append(over, m.point)
		}
	}
	return over
}

// hidepid says that procfs shows the caller its own processes only: proc(5).
func (h files) hidepid() string {
	for _, m := range h.mounts() {
		for option := range strings.SplitSeq(m.super, ",") {
			if m.point == "/proc" && m.kind == "proc" && strings.HasPrefix(option, "hidepid=") && option != "hidepid=0" && option != "hidepid=off" {
				return "/proc is mounted with " + option
			}
		}
	}
	return ""
}

// capable reports whether a capability is in the caller's effective set. It is, for all that can be told, if nothing says so.
func (h files) capable(n int) bool {
	bits, err := strconv.ParseUint(h.status("self", "CapEff"), 16, 64)
	return err != nil || bits>>n&1 != 0
}

// mapped reports whether the caller's user id has a mapping: one that has not shows as one that is not mapped either (user_namespaces(7)).
func (h files) mapped(uid int) bool {
	text := h.text("proc/self/uid_map")
	for line := range strings.SplitSeq(text, "\n") {
		var inside, outside, count int
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && uid >= inside && uid-inside < count {
			return true
		}
	}
	return text == ""
}

// apparmor is the profile that confines this process, or empty. A label with three colons is SELinux's.
func (h files) apparmor() string {
	for _, name := range []string{"proc/self/attr/apparmor/current", "proc/self/attr/current"} {
		label := strings.TrimRight(h.text(name), "\x00")
		if label != "" && strings.Count(label, ":") < 3 {
			profile, _, _ := strings.Cut(label, " (")
			if profile == "unconfined" {
				return ""
			}
			return profile
		}
	}
	return ""
}

// distro reads os-release(5).
func (h files) distro() (d facts.Distro) {
	text := h.text("etc/os-release")
	if text == "" {
		text = h.text("usr/lib/os-release")
	}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			d.ID = value
		case "ID_LIKE":
			d.Like = strings.Fields(value)
		case "PRETTY_NAME":
			d.Name = value
		}
	}
	return d
}

// surroundings names what the caller is in, in the words of [facts.Facts].
func (h files) surroundings() (words []string) {
	release, version := h.text("proc/sys/kernel/osrelease"), h.text("proc/version")
	// systemd as the container's init keeps its own container variable there.
	kind := h.env("container")
	if kind == "" {
		kind = h.text("run/systemd/container")
	}
	groups := h.text("proc/1/cgroup") + "\n" + h.text("proc/self/cgroup")
	known := func(word string) bool { return slices.Contains([]string{"docker", "podman", "lxc"}, word) }
	for _, w := range []struct {
		word string
		is   bool
	}{
		{"docker", h.has(".dockerenv") || kind == "docker" || strings.Contains(groups, "/docker/") || strings.Contains(groups, "/docker-")},
		{"podman", h.has("run/.containerenv") || kind == "podman" || strings.Contains(groups, "/libpod-")},
		{"kubernetes", h.env("KUBERNETES_SERVICE_HOST") != "" || h.has("var/run/secrets/kubernetes.io/serviceaccount") || strings.Contains(groups, "/kubepods")},
		{"lxc", strings.HasPrefix(kind, "lxc") || strings.Contains(groups, "/lxc/") || strings.Contains(groups, "/lxc.payload")},
		{"container", kind != "" && !known(kind) && !strings.HasPrefix(kind, "lxc")},
		// https://github.com/microsoft/WSL: "4.4.0-19041-Microsoft" is the first kind, "5.15.90.1-microsoft-standard-WSL2" the second.
		{"wsl1", strings.HasSuffix(release, "-Microsoft")},
		{"wsl2", strings.Contains(release, "WSL2") || strings.Contains(release, "microsoft-standard")},
		// gVisor's pkg/sentry/syscalls/linux/linux64.go: it says the same date on every host; the release is 4.4.0, since 2026 4.19.0-gvisor.
		{"gvisor", strings.Contains(strings.ToLower(version), "gvisor") || strings.Contains(version, "Sun Jan 10 15:06:54 PST 2016")},
		{"chroot", h.chroot()},
		{"overmounted", h.overRoot() != mount{}},
	} {
		if w.is {
			words = append(words, w.word)
		}
		if w.is && w.word == "wsl2" && h.mirrored(len(words) > 1) {
			words = append(words, "wsl2-mirrored")
		}
	}
	return words
}
