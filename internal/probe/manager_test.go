package probe

import (
	"slices"
	"testing"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/stretchr/testify/assert"
)

// TestWhoCanBeAskedForAGroup looks at hosts with and without a service manager.
func TestWhoCanBeAskedForAGroup(t *testing.T) {
	const (
		private = "/run/user/1000/systemd/private"
		slice   = "/user.slice/user-1000.slice"
		session = slice + "/session-3.scope"
		given   = "sys/fs/cgroup" + slice + "/user@1000.service/cgroup.controllers"
	)
	login := map[string]string{
		"proc/self/mountinfo": rootMount + v2Mount, "proc/self/cgroup": "0::" + session + "\n", "run/systemd/system/x": "",
		"sys/fs/cgroup/cgroup.controllers":                "cpuset cpu io memory pids\n",
		"sys/fs/cgroup" + session + "/cgroup.controllers": "memory pids\n",
		"sys/fs/cgroup" + slice + "/cgroup.controllers":   "cpu memory pids\n",
		given: "memory pids\n",
		"sys/fs/cgroup" + slice + "/user@1000.service/app.slice/x/cgroup.controllers": "memory pids\n",
	}
	for name, c := range map[string]struct {
		host   map[string]string
		uid    int
		may    []string
		want   *facts.Manager
		groups int
	}{
		"a login session": {login, 1000, []string{private},
			&facts.Manager{Socket: private, Tree: "/sys/fs/cgroup", Controllers: []string{"memory", "pids"}}, 0},
		"by its bus": {login, 1000, []string{"/run/user/1000/bus", "/run/systemd/private"},
			&facts.Manager{Socket: "/run/user/1000/bus", Bus: true, Tree: "/sys/fs/cgroup", Controllers: []string{"memory", "pids"}}, 0},
		"elsewhere": {with(login, "$XDG_RUNTIME_DIR", "/x"), 1000, []string{private, "/x/systemd/private"},
			&facts.Manager{Socket: "/x/systemd/private", Tree: "/sys/fs/cgroup", Controllers: []string{"memory", "pids"}}, 0},
		"root's is the system's": {login, 0, []string{"/run/user/0/bus", "/run/user/0/systemd/private", "/run/systemd/private"},
			&facts.Manager{Socket: "/run/systemd/private", Tree: "/sys/fs/cgroup", Controllers: []string{"memory", "pids", "cpu", "io"}}, 0},
		"delegated, nobody says what": {with(login, given, ""), 1000, []string{private},
			&facts.Manager{Socket: private, Tree: "/sys/fs/cgroup", Controllers: []string{"memory", "pids", "cpu", "io"}}, 0},
		"the system's is not a user's": {login, 1000, []string{"/run/systemd/private"}, nil, 0},
		"nobody is there":              {login, 1000, nil, nil, 0},
		"version 1":                    {with(login, "proc/self/mountinfo", rootMount), 1000, []string{private}, nil, 0},
		"no controllers": {with(login, "sys/fs/cgroup/cgroup.controllers", "", given, ""),
			1000, []string{private}, nil, 0},
		"a part of the tree": {with(login, "proc/self/mountinfo", "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
			1000, []string{private}, nil, 0},
		"a place is there already": {with(login, "proc/self/cgroup", "0::"+slice+"/user@1000.service\n",
			"sys/fs/cgroup"+slice+"/cgroup.subtree_control", "memory pids"),
			1000, []string{private, "/sys/fs/cgroup" + slice, "/sys/fs/cgroup" + slice + "/cgroup.procs"}, nil, 1},
	} {
		may := func(path string) bool { return slices.Contains(c.may, path) }
		groups, got := tree(c.host).groups("7", c.uid, may)
		assert.Equal(t, len(groups) > 0, tree(c.host).mayHaveGroupV2(may), name)
		assert.Equal(t, c.want, got, name)
		assert.Len(t, groups, c.groups, name)
	}
	without := with(login)
	delete(without, "run/systemd/system/x")
	_, got := tree(without).groups("7", 1000, func(string) bool { return true })
	assert.Nil(t, got, "systemd does not run the host")
	beside := map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/a\n1:name=systemd:/a\n0::/b/c\n", "sys/fs/cgroup/b/cgroup.controllers": "pids\n",
		"sys/fs/cgroup/unified/b/c/cgroup.controllers": "memory\n", "sys/fs/cgroup/unified/b/cgroup.controllers": "hugetlb\n",
		"sys/fs/cgroup/cgroup.controllers": "cpu pids\n", "sys/fs/cgroup/unified/cgroup.controllers": "memory\n"}
	for may, want := range map[string]bool{"/sys/fs/cgroup/b": true, "/sys/fs/cgroup/unified/b/c": true, "/sys/fs/cgroup/unified/b": false,
		"/sys/fs/cgroup/cpu,cpuacct/a": false, "/sys/fs/cgroup": false, "/": false} {
		assert.Equal(t, want, tree(beside).mayHaveGroupV2(func(path string) bool { return path == may }), may)
	}
	beside["sys/fs/cgroup/unified/cgroup.controllers"] = "hugetlb\n"
	assert.False(t, tree(beside).mayHaveGroupV2(func(path string) bool { return path == "/sys/fs/cgroup/unified/b/c" }), "the top has no controller of use")
}
