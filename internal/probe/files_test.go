package probe

import (
	"testing"
	"testing/fstest"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/stretchr/testify/assert"
)

// tree makes up a host: files by name, and variables by "$NAME".
func tree(words map[string]string) files {
	all := fstest.MapFS{}
	for name, text := range words {
		if name[0] != '$' {
			all[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return files{all, func(name string) string { return words["$"+name] }}
}

const (
	rootMount = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	procMount = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
	v2Mount   = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	// What Docker puts over /proc.
	masked = rootMount + procMount + `
500 22 0:21 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw
501 22 0:21 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw
502 22 0:70 / /proc/acpi ro,relatime - tmpfs tmpfs ro
503 22 0:71 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw
`
	readOnlySys = "24 22 0:21 /sys /proc/sys ro,relatime - proc proc rw\n"
	filtering   = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	open        = "Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"
)

func with(h map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// hosts are made up of what such hosts have.
var hosts = map[string]map[string]string{
	"plain Debian": {
		"etc/os-release":            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
		"proc/self/mountinfo":       rootMount + procMount + v2Mount,
		"proc/self/status":          open,
		"proc/sys/kernel/osrelease": "6.1.0-25-amd64\n",
		"proc/version":              "Linux version 6.1.0-25-amd64 (debian-kernel@lists.debian.org)\n",
		"proc/1/cgroup":             "0::/init.scope\n",
		"proc/self/cgroup":          "0::/user.slice/user-1000.slice/session-3.scope\n",
	},
	"Ubuntu 24.04, restricted": {
		"etc/os-release":                  "NAME='Ubuntu'\nID=ubuntu\nID_LIKE=debian\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n",
		"proc/self/mountinfo":             rootMount + procMount + v2Mount,
		"proc/self/status":                open,
		"proc/self/attr/apparmor/current": "unconfined\n",
		"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
		"proc/sys/user/max_user_namespaces":                     "62000\n",
		"proc/self/ns/user":                                     "",
	},
	"default Docker": {
		"usr/lib/os-release":     "ID=alpine\n",
		".dockerenv":             "",
		"proc/self/mountinfo":    masked,
		"proc/self/status":       filtering,
		"proc/self/attr/current": "docker-default (enforce)\x00",
		"proc/1/cgroup":          "0::/\n",
		"proc/self/ns/user":      "",
	},
	"rootless Podman": {
		"etc/os-release":         "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
		"run/.containerenv":      "engine=\"podman-4.3.1\"\nrootless=1\n",
		"$container":             "podman",
		"proc/self/mountinfo":    masked,
		"proc/self/status":       filtering,
		"proc/self/attr/current": "system_u:system_r:container_t:s0:c1,c2",
	},
	"Kubernetes pod": {
		"$KUBERNETES_SERVICE_HOST":                           "10.0.0.1",
		"var/run/secrets/kubernetes.io/serviceaccount/token": "x",
		"proc/self/mountinfo":                                masked,
		"proc/self/status":                                   filtering,
		"proc/1/cgroup":                                      "0::/kubepods/besteffort/pod1/cri-containerd-2\n",
	},
	"WSL 1": {"proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft\n", "proc/version": "Linux version 4.4.0-19041-Microsoft\n",
		"proc/self/mountinfo": rootMount, "proc/self/status": open},
	"WSL 2": {"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n", "proc/self/mountinfo": rootMount, "proc/self/status": open},
	"WSL 2, mirrored": {"proc/sys/kernel/osrelease": "6.18.33.2-microsoft-standard-WSL2\n", "proc/self/mountinfo": rootMount, "proc/self/status": filtering,
		"sys/class/net/loopback0": ""},
	"WSL 2, mirrored, in a namespace": {"proc/sys/kernel/osrelease": "6.18.33.2-microsoft-standard-WSL2\n", "proc/self/mountinfo": rootMount, "proc/1/status": filtering},
	"Docker in WSL 2":                 {"proc/sys/kernel/osrelease": "6.18.33.2-microsoft-standard-WSL2\n", ".dockerenv": "", "proc/self/mountinfo": masked, "proc/1/status": filtering},
	"gVisor of 2026":                  {"proc/version": "Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016\n", "proc/self/mountinfo": "1 0 0:1 / / rw - 9p none rw\n"},
	"a mount over /":                  {"proc/self/mountinfo": rootMount + procMount + "90 27 0:50 / / rw,relatime - tmpfs none rw\n", "proc/self/status": open},
	"gVisor":                          {"proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n", "proc/self/mountinfo": "1 0 0:1 / / rw - 9p none rw\n"},
	"LXC":                             {"run/systemd/container": "lxc\n", "proc/self/mountinfo": rootMount + procMount, "proc/1/cgroup": "0::/init.scope\n"},
	"nspawn":                          {"run/systemd/container": "systemd-nspawn\n", "proc/self/mountinfo": rootMount},
	"chroot":                          {"proc/self/mountinfo": "40 27 0:21 / /proc rw,relatime - proc proc rw\n", "proc/self/status": open},
}

func TestSurroundings(t *testing.T) {
	for name, want := range map[string][]string{
		"plain Debian": nil, "Ubuntu 24.04, restricted": nil, "default Docker": {"docker"}, "rootless Podman": {"podman"},
		"Kubernetes pod": {"kubernetes"}, "WSL 1": {"wsl1"}, "WSL 2": {"wsl2"}, "WSL 2, mirrored": {"wsl2", "wsl2-mirrored"},
		"WSL 2, mirrored, in a namespace": {"wsl2", "wsl2-mirrored"}, "Docker in WSL 2": {"docker", "wsl2"}, "gVisor": {"gvisor"},
		"gVisor of 2026": {"gvisor"}, "a mount over /": {"overmounted"}, "LXC": {"lxc"},
		"nspawn": {"container"}, "chroot": {"chroot"},
	} {
		assert.Equal(t, want, tree(hosts[name]).surroundings(), name)
	}
	assert.Empty(t, tree(nil).surroundings(), "a host without any file")
}

func TestDistro(t *testing.T) {
	for name, want := range map[string]facts.Distro{
		"plain Debian":             {ID: "debian", Name: "Debian GNU/Linux 12 (bookworm)"},
		"Ubuntu 24.04, restricted": {ID: "ubuntu", Like: []string{"debian"}, Name: "Ubuntu 24.04.1 LTS"},
		"default Docker":           {ID: "alpine"},
		"rootless Podman":          {ID: "rocky", Like: []string{"rhel", "centos", "fedora"}},
		"gVisor":                   {},
	} {
		assert.Equal(t, want, tree(hosts[name]).distro(), name)
	}
}

func TestReadingsOfProc(t *testing.T) {
	docker := tree(hosts["default Docker"])
	assert.Equal(t, []string{"/proc/bus", "/proc/sys", "/proc/acpi", "/proc/kcore"}, docker.masks())
	assert.Equal(t, "docker-default", docker.apparmor())
	assert.Equal(t, "2", docker.status("self", "Seccomp"))
	assert.Empty(t, tree(hosts["Ubuntu 24.04, restricted"]).apparmor(), "unconfined is no profile")
	assert.Empty(t, tree(hosts["rootless Podman"]).apparmor(), "a label of SELinux is no profile")
	plain := tree(with(hosts["plain Debian"], "proc/self/mountinfo",
		rootMount+"22 27 0:21 / /proc rw - proc proc rw,hidepid=invisible\n35 22 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"))
	assert.Empty(t, plain.masks(), "a mount on binfmt_misc hides nothing")
	assert.Equal(t, "/proc is mounted with hidepid=invisible", plain.hidepid())
	assert.Empty(t, docker.hidepid())
	assert.NotEqual(t, "2", plain.status("self", "Seccomp"))
	odd := tree(map[string]string{"proc/self/mountinfo": "garbage\n1 2 3:4 / /a\\040b rw opt - tmpfs x rw\nshort - a\n"})
	assert.Equal(t, []mount{{"1", "2", "/", "/a b", "rw", "tmpfs", "rw"}}, odd.mounts())
}

func TestPlacesInCgroupTrees(t *testing.T) {
	v2 := func(mountinfo, cgroup string) (place, bool) {
		return tree(map[string]string{"proc/self/mountinfo": mountinfo, "proc/self/cgroup": cgroup}).placeV2()
	}
	for _, c := range []struct {
		name, mountinfo, cgroup string
		want                    place
		ok                      bool
	}{
		{"a session", v2Mount, "0::/user.slice/session-3.scope\n", place{dir: "/sys/fs/cgroup/user.slice/session-3.scope"}, true},
		{"the root, or a cgroup namespace", v2Mount, "0::/\n", place{dir: "/sys/fs/cgroup", top: true}, true},
		{"a part is mounted", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abc/sub\n", place{dir: "/sys/fs/cgroup/sub"}, true},
		{"a neighbour's part", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abcd\n", place{}, true},
		{"outside of the namespace", v2Mount, "0::/../other\n", place{}, true},
		{"none", rootMount, "0::/\n", place{}, false},
		{"hybrid", "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/a\n0::/b\n", place{dir: "/sys/fs/cgroup/unified/b"}, true},
	} {
		got, ok := v2(c.mountinfo, c.cgroup)
		assert.Equal(t, c.ok, ok, c.name)
		assert.Equal(t, c.want, got, c.name)
	}
	v1 := tree(map[string]string{
		"proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"36 31 0:33 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
		"proc/self/cgroup": "9:name=systemd:/s\n7:blkio:/b\n4:memory:/m\n2:cpu,cpuacct:/c\n",
	})
	assert.Equal(t, []place{
		{dir: "/sys/fs/cgroup/cpu,cpuacct/c", controllers: []string{"cpu"}}, {dir: "/sys/fs/cgroup/memory/m", controllers: []string{"memory"}},
		{dir: "/sys/fs/cgroup/blkio/b", controllers: []string{"io"}},
	}, v1.placesV1())
	assert.Equal(t, []string{"pids"}, lacks("cpuset cpu io memory\n"))
	assert.Empty(t, lacks("cpuset cpu io memory pids"))
}
