package e2e

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// machine is one row of TestVM's matrix.
type machine struct {
	name   string
	line   string // of kernels
	root   string // what programs there are: debian, busybox, musl, bare
	host   guest.Host
	append string // to the kernel's command line
	memory int    // MB; 1024 if 0
	suites []string
	full   bool // not in the default set
}

// usual are the suites of a machine that nothing is missing in.
var usual = []string{"e2e", "engine", "host", "cmd", "nsrun", "engines", "sys", "mounts", "landlock", "seccomp", "rlimit", "probe", "bwrap"}

// machines are the hosts that are tried.
var machines = []machine{
	{name: "5.10", line: "5.10", root: "debian", suites: usual},
	{name: "6.1", line: "6.1", root: "debian", suites: usual},
	{name: "6.12", line: "6.12", root: "debian", suites: usual},
	{name: "6.18", line: "6.18", root: "debian", suites: usual},
	{name: "7.2", line: "7.2", root: "debian", suites: usual},
}

// wanted says that a machine is in the set that was asked for.
func (m machine) wanted() bool {
	if *onKernels != "" {
		return slices.Contains(strings.Split(*onKernels, ","), m.line)
	}
	return *fullVM || !m.full
}

// suite is a package whose tests run in machines.
type suite struct {
	dir     string // of the package in the module
	seconds int    // that it may take, by hardware
	skip    string // tests that take too long for the default set where there is no KVM
}

// suites by the names that they have in those of tests. A test that is added to one of these packages runs in all machines.
var suites = map[string]suite{
	"e2e":      {dir: "e2e", seconds: 300},
	"engine":   {dir: "e2e/engine", seconds: 200},
	"host":     {dir: "e2e/host", seconds: 60},
	"bwrap":    {dir: "e2e/bwrap", seconds: 300},
	"cmd":      {dir: "cmd/nsrun", seconds: 60},
	"nsrun":    {dir: "nsrun", seconds: 60},
	"engines":  {dir: "nsrun/internal/engine", seconds: 100},
	"probe":    {dir: "nsrun/internal/probe", seconds: 60},
	"sys":      {dir: "internal/sys", seconds: 60},
	"mounts":   {dir: "mounts", seconds: 60},
	"landlock": {dir: "landlock", seconds: 60},
	"seccomp":  {dir: "seccomp", seconds: 60},
	"rlimit":   {dir: "rlimit", seconds: 60},
}

// programs are what the suites' tests start.
var programs = []string{"cmd/nsrun", "e2e/testdata/probe", "e2e/bwrap/testdata/fingerprint", "e2e/engine/testdata/act", "e2e/host/testdata/lock"}
