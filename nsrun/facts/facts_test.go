package facts

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table into doc/troubleshooting.md anew")

func TestTableRowsAreComplete(t *testing.T) {
	seen := map[Name]bool{}
	for _, row := range Table {
		assert.NotEmpty(t, row.Since, row.Name)
		assert.NotEmpty(t, row.Loss, row.Name)
		assert.NotEmpty(t, row.Fix, row.Name)
		assert.False(t, seen[row.Name], "%s has two rows", row.Name)
		seen[row.Name] = true
		got, ok := Lookup(row.Name)
		require.True(t, ok)
		assert.Equal(t, row, got)
	}
	_, ok := Lookup("no_such")
	assert.False(t, ok)
}

func TestUnaskedIsUnknownAndTried(t *testing.T) {
	var f Facts
	assert.Equal(t, Unknown, f.State(UserNS))
	assert.True(t, f.Can(UserNS), "a plan tries what nobody asked about")
	f = f.With(UserNS, Answer{State: No, Fix: "do this"})
	assert.False(t, f.Can(UserNS))
	assert.Equal(t, "do this", f.Fix(UserNS))
	assert.Equal(t, Table[0].Fix, Facts{}.Fix(UserNS))
}

func TestWithDoesNotChangeTheOriginal(t *testing.T) {
	f := Facts{}.With(Seccomp, Answer{State: Yes})
	f.With(Seccomp, Answer{State: No})
	assert.Equal(t, Yes, f.State(Seccomp))
}

func TestFactsSurviveJSON(t *testing.T) {
	f := Facts{Kernel: "6.1", Arch: "arm64", UID: 7, LastCap: 40, LandlockABI: 2, LandlockErrata: 3, LandlockRefused: []string{"truncate"},
		Distro: Distro{ID: "ubuntu", Like: []string{"debian"}, Name: "Ubuntu 24.04"}, Surroundings: []string{"docker", "wsl2"},
		Groups: []Group{{Version: 2, Dir: "/sys/fs/cgroup", Controllers: []string{"pids"}, Enable: []string{"pids"}, Leave: true}}, PidMaxLeast: 301, ListenerKillable: true, MemoryMB: 5,
		Program: Program{Path: "/home/u/nsrun", Writable: "/home/u"},
		Manager: &Manager{Socket: "/run/user/7/bus", Bus: true, Tree: "/sys/fs/cgroup", Controllers: []string{"cpu"}, Refused: "why"},
	}.With(Landlock, Answer{State: Yes}).With(CgroupV2, Answer{State: No, Detail: "why", Fix: "what"})
	all := reflect.ValueOf(f)
	for i := range all.NumField() {
		if name := all.Type().Field(i).Name; name != "GID" {
			assert.False(t, all.Field(i).IsZero(), "this test fills in every field, and %s not", name)
		}
	}
	data, err := json.Marshal(f)
	require.NoError(t, err)
	var back Facts
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, f, back)
	assert.NoError(t, back.Validate())
}

func TestFixIsTheProbesThenTheDistributionsThenTheTables(t *testing.T) {
	bwrap := func(d Distro) string { return Facts{Distro: d}.Fix(Bwrap) }
	assert.Equal(t, "install bubblewrap", bwrap(Distro{}))
	assert.Equal(t, "install bubblewrap", bwrap(Distro{ID: "nixos"}))
	assert.Equal(t, "apt install bubblewrap", bwrap(Distro{ID: "debian"}))
	assert.Equal(t, "apt install bubblewrap", bwrap(Distro{ID: "ubuntu", Like: []string{"debian"}}))
	assert.Equal(t, "dnf install bubblewrap", bwrap(Distro{ID: "rocky", Like: []string{"rhel", "centos", "fedora"}}))
	assert.Equal(t, "zypper install bubblewrap", bwrap(Distro{ID: "opensuse-leap", Like: []string{"suse", "opensuse"}}))
	rocky := Facts{Distro: Distro{ID: "rocky", Like: []string{"rhel", "centos", "fedora"}}}
	assert.Equal(t, "install docker-ce from the packages that Docker itself offers", rocky.Fix(Docker), "the nearest one that it is like")
	assert.Equal(t, "dnf install moby-engine", Facts{Distro: Distro{ID: "fedora"}}.Fix(Docker))
	assert.Equal(t, "do this", rocky.With(Docker, Answer{State: No, Fix: "do this"}).Fix(Docker))
	assert.Empty(t, Facts{}.Fix("no_such"))
}

func TestAnotherKernelComesByOtherMeansInSomeSurroundings(t *testing.T) {
	fix := func(name Name, surroundings ...string) string {
		return Facts{Distro: Distro{ID: "debian"}, Surroundings: surroundings}.Fix(name)
	}
	assert.Equal(t, "use a kernel from 5.9 on", fix(CloseR))
	assert.Equal(t, "on the host: use a kernel from 5.9 on", fix(CloseR, "docker"))
	assert.Equal(t, "on the host: use a kernel from 5.9 on", fix(CloseR, "podman", "wsl2"))
	assert.Equal(t, "wsl --update, in Windows", fix(CloseR, "wsl2"))
	assert.Contains(t, fix(CloseR, "docker", "gvisor"), "another runtime than gVisor's")
	assert.Equal(t, lsmDebian, fix(Landlock))
	assert.Equal(t, "on the host: "+lsmDebian, fix(Landlock, "lxc"), "a container boots nothing")
	assert.Equal(t, "apt install bubblewrap", fix(Bwrap, "docker"))
}

func TestAppArmorProfile(t *testing.T) {
	text, err := Program{Path: "/opt/my tools/nsrun"}.AppArmorProfile()
	require.NoError(t, err)
	assert.Contains(t, text, "\nprofile nsrun \"/opt/my tools/nsrun\" flags=(unconfined) {\n  userns,\n")
	assert.Equal(t, "'/opt/my tools/nsrun' doctor --apparmor-profile | sudo tee /etc/apparmor.d/nsrun && sudo apparmor_parser -r /etc/apparmor.d/nsrun",
		Program{Path: "/opt/my tools/nsrun"}.AppArmorFix())
	for _, c := range []struct {
		p     Program
		fault string
	}{
		{Program{Path: "/home/u/nsrun", Writable: "/home/u"}, "/home/u can be written to by others than root, and whoever replaces /home/u/nsrun would get its exemption; " +
			"install it for root first: sudo install -m 755 /home/u/nsrun /usr/local/bin/nsrun"},
		{Program{Path: "/opt/*/nsrun"}, `"/opt/*/nsrun" has characters`},
		{Program{Path: "/opt/@{HOME}/nsrun"}, "has characters"},
		{Program{Path: "/opt/a\"b/nsrun"}, "has characters"},
		{Program{Path: "/opt/a\nb/nsrun"}, "has characters"},
		{Program{Path: "/opt/it's/nsrun"}, `sudo install -m 755 '/opt/it'\''s/nsrun' /usr/local/bin/nsrun`},
		{Program{Path: "/usr/bin/nsrun (deleted)"}, "is not known"},
		{Program{Path: "nsrun"}, "is not known"},
		{Program{}, "is not known"},
	} {
		text, err := c.p.AppArmorProfile()
		assert.ErrorContains(t, err, c.fault)
		assert.Empty(t, text)
		assert.NotContains(t, c.p.AppArmorFix(), "AppArmor profile: ", "a fix is an action")
	}
}

// TestPackagesShipTheSameProfile for the place where they put nsrun.
func TestPackagesShipTheSameProfile(t *testing.T) {
	const file = "../../contrib/apparmor/nsrun"
	text, err := Program{Path: "/usr/bin/nsrun"}.AppArmorProfile()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, text, string(data), "go test ./nsrun/facts -update writes it anew")
}

func TestValidateNamesEveryFault(t *testing.T) {
	require.NoError(t, Facts{}.Validate())
	f := Facts{LandlockABI: -1, Manager: &Manager{Socket: "bus", Tree: "/sys/fs/cgroup"}}.With("landlok", Answer{State: Yes}).With("zzzzzzzzz", Answer{State: No}).With(Seccomp, Answer{State: "maybe"}).
		With(Overlay, Answer{})
	assert.EqualError(t, f.Validate(), `features: "landlok" is not a feature; nsrun doctor has their names
features: overlay: the state "" is unknown; use yes, no or unknown
features: seccomp: the state "maybe" is unknown; use yes, no or unknown
features: "zzzzzzzzz" is not a feature; nsrun doctor has their names
landlock_abi: -1 is not an ABI; 0 means none
manager: socket "bus", tree "/sys/fs/cgroup": use absolute paths`)
}

func TestDocHasTheTable(t *testing.T) {
	testenv.DocTable(t, "../../doc/troubleshooting.md", "features", Markdown(), *update)
}

func TestMarkdownHasEveryRow(t *testing.T) {
	text := Markdown()
	for _, row := range Table {
		assert.Contains(t, text, "`"+string(row.Name)+"`")
		assert.Contains(t, Groups, row.Group, row.Name)
	}
	assert.Equal(t, `a\|b &lt;c \$d`, cell("a|b <c $d"))
}
