package e2e

import (
	"runtime"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/e2e/vm"
	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// machine is one row of TestVM's matrix: a host that nsrun has to work on, or to say why it cannot.
type machine struct {
	name   string
	boot   string // the machine that this one shares a boot with: its kernel, root and command line; itself, if empty
	line   string // of kernels
	arch   string // this machine's if empty
	root   string // what programs there are: debian, busybox, musl, bare
	host   guest.Host
	append string   // to the kernel's command line
	memory int      // MB; 3072 if 0, so that half of it is more than what a sandbox has
	suites []string // whose tests run; the talk is on all machines
	more   []string // suites that only the full set has
	full   bool     // not in the default set
	plain  bool     // a kernel as it is: what is as old as its line or older must be there
}

// Suites that machines have in common.
var (
	quick = []string{"sys", "mounts", "landlock", "seccomp", "rlimit", "probe", "nsrun", "nethost"}
	all   = slices.Concat(quick, []string{"e2e", "backend"})
	rest  = []string{"backends", "cmd", "bwrap"}
)

// machines are the hosts that are tried: first kernels, then kinds of hosts on one of them. Machines that share a boot run in the order in
// which they stand here, the one that names the boot last but for a host that cannot be taken back.
var machines = []machine{
	{name: "5.10", line: "5.10", root: "debian", suites: all, more: rest, plain: true},

	{name: "6.1", line: "6.1", root: "debian", suites: slices.Concat(quick, []string{"e2e"}), more: slices.Concat(rest, []string{"backend"}), plain: true},
	// A kernel that has had version 1 does not soon give all controllers to version 2: a boot of their own.
	{name: "cgroup-v1", boot: "cgroup-v1", line: "6.1", root: "debian", host: guest.Host{Cgroup: "v1"}, suites: []string{"probe"}},
	{name: "cgroup-hybrid", boot: "cgroup-v1", line: "6.1", root: "debian", host: guest.Host{Cgroup: "hybrid"}, suites: []string{"probe"}},

	{name: "no-unprivileged", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{Sysctl: map[string]string{"kernel.unprivileged_userns_clone": "0"}}},
	{name: "no-user-namespaces", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{Sysctl: map[string]string{"user.max_user_namespaces": "0"}}},
	{name: "no-cgroups", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{Cgroup: "none"}},
	{name: "no-delegation", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{NoDelegation: true}},
	{name: "hidepid", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{ProcOptions: "hidepid=invisible"}, suites: []string{"nsrun"}},
	{name: "no-shm", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{NoShm: true}, suites: []string{"nsrun"}, more: []string{"e2e"}},
	{name: "6.12", line: "6.12", root: "debian", suites: slices.Concat(quick, []string{"backend", "scope"}), more: slices.Concat(rest, []string{"e2e"}), plain: true},
	{name: "apparmor", boot: "6.12", line: "6.12", root: "debian", host: guest.Host{AppArmor: vm.ModuleDir + "/e2e/testdata/apparmor/nsrun.bin"}},

	{name: "6.18", line: "6.18", root: "debian", suites: quick, more: slices.Concat(rest, []string{"e2e", "backend"}), plain: true},
	{name: "initramfs-7.2", boot: "7.2", line: "7.2", root: "debian", host: guest.Host{InitramfsTop: true}},
	{name: "7.2", line: "7.2", root: "debian", suites: all, more: rest, plain: true},
	{name: "7.0", line: "7.0", root: "debian", suites: all, more: rest, plain: true, full: true},
	{name: "7.1", line: "7.1", root: "debian", suites: all, more: rest, plain: true, full: true},

	{name: "initramfs", boot: "busybox", line: "6.12", root: "busybox", host: guest.Host{InitramfsTop: true, ReadOnly: true}},
	{name: "busybox", line: "6.12", root: "busybox", host: guest.Host{ReadOnly: true}, suites: quick, more: []string{"e2e"}},
	{name: "busybox-5.10", line: "5.10", root: "busybox", host: guest.Host{ReadOnly: true}, suites: []string{"nsrun"}, more: []string{"e2e"}},
	{name: "musl", line: "6.12", root: "musl", memory: 256, suites: []string{"nsrun"}, more: []string{"e2e"}}, // a small machine, too
	{name: "bare", line: "6.12", root: "bare", host: guest.Host{ReadOnly: true}},
	{name: "arm64", line: "6.12", arch: "arm64", root: "busybox", suites: quick, more: []string{"backends", "e2e"}},
	{name: "landlock-off", line: "6.12", root: "debian", append: "lsm=lockdown,yama,apparmor"},
	{name: "no-memory-controller", line: "6.12", root: "debian", append: "cgroup_disable=memory"},
}

// boots are the machines by the boot that they share, in the order of their first.
func boots() (list [][]machine) {
	for _, m := range machines {
		i := slices.IndexFunc(list, func(of []machine) bool { return of[0].bootName() == m.bootName() })
		if i < 0 {
			list, i = append(list, nil), len(list)
		}
		list[i] = append(list[i], m)
	}
	return list
}

// bootName is the name of the machine's boot, the first level of its tests' names.
func (m machine) bootName() string {
	if m.boot == "" {
		return m.name
	}
	return m.boot
}

// wanted says that a machine is in the set that was asked for: of some lines of kernels, by name, or by default.
func (m machine) wanted(words []string) bool {
	switch {
	case *onKernels != "":
		return slices.Contains(strings.Split(*onKernels, ","), m.line)
	case m.full:
		return *fullVM || len(words) > 1 && strings.Contains(words[1], m.name)
	}
	return true
}

// goarch is the machine's architecture as Go and Debian call it.
func (m machine) goarch() string {
	if m.arch == "" {
		return runtime.GOARCH
	}
	return m.arch
}

// names are those of the suites that run in the machine.
func (m machine) names() []string {
	if *fullVM {
		return slices.Concat(m.suites, m.more)
	}
	return m.suites
}

// suite is a package whose tests run in machines.
type suite struct {
	dir     string // of the package in the module
	seconds int    // that it may take, by hardware
	only    string // those of its tests that are the suite; all, if empty
	skip    string // tests that take long by emulation, or ask nothing of a kernel, and are in the full set only
}

// suites by the names that they have in those of tests. A test that is added to one of these packages runs in the machines.
var suites = map[string]suite{
	"e2e":      {dir: "e2e", seconds: 100},
	"backend":  {dir: "e2e/backend", seconds: 60},
	"bwrap":    {dir: "e2e/bwrap", seconds: 300},
	"cmd":      {dir: "cmd/nsrun", seconds: 60},
	"nsrun":    {dir: "internal/runner", seconds: 60, skip: "^(TestSessionsLeaveNothing|TestManyAtOnce|TestAFloodCostsConstantMemory|TestEverythingAtOnce|TestManyArguments|TestFreshBesideOthers|TestOutputIsAllThere|TestTheEndOfWhatIsTyped|TestAServerThatIsStopped|TestPool)$|^TestKillTree$/^(daemon|sigterm|stopped|orphan_maker|fork_storm)$"},
	"backends": {dir: "internal/backend", seconds: 100},
	"scope":    {dir: "internal/backend", seconds: 20, only: "^TestALimitInAScope$"},
	"probe":    {dir: "internal/probe", seconds: 20},
	"sys":      {dir: "internal/sys", seconds: 20},
	"mounts":   {dir: "mounts", seconds: 20},
	"landlock": {dir: "landlock", seconds: 20},
	"seccomp":  {dir: "seccomp", seconds: 60, skip: "^(TestOCI|TestLongJumps|TestInvariants|TestAllowed|Fuzz)"},
	"rlimit":   {dir: "rlimit", seconds: 20},
	"nethost":  {dir: "internal/nethost", seconds: 40},
}

// programs are what the suites' tests start.
var programs = []string{"cmd/nsrun", "e2e/testdata/probe", "e2e/bwrap/testdata/fingerprint", "e2e/backend/testdata/act", "e2e/backend/testdata/unlucky"}
