package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// pkg is a package with tests. A package without a row has the zero row: its tests are in the fast tier, as root and as the ordinary user.
type pkg struct {
	quick   bool
	seconds int    // its tests as one user take, in the fast tier
	once    bool   // as root only, where root runs the tests: they take an ordinary user themselves
	slow    int    // seconds in the tier all, if that repeats more or has tests of its own
	slice   int    // of CI, for slow
	apart   part   // of slow, tests that are a stage of their own
	race    int    // seconds under the race detector; 0 for packages without goroutines
	serial  string // a test that only computes, for minutes, which the race detector is spared
	leaves  bool   // it has left the fast tier: internal/testenv/slow.go says who guards its promises
	needs   string // Debian's packages
	more    string // Debian's packages in the tier all
}

// part is the tests of a package that take so long that CI runs them in another slice than the rest.
type part struct {
	name           string
	tests          string // how their names begin
	seconds, slice int
}

// docker is what a Docker daemon of a test's own takes.
const docker = "docker.io podman crun bubblewrap"

// everyday is what the programs of e2e/programs are in.
const everyday = "autoconf automake bc bison cmake curl emacs-nox ffmpeg file flex g++ gdb ghostscript gnupg gnuplot-nox graphviz imagemagick libc6-dbg " +
	"libxml2-utils lua5.4 m4 maven ninja-build openjdk-17-jdk-headless openssh-client openssl pandoc patch php-cli poppler-utils procps python3-pip " +
	"chromium jupyter-nbconvert libreoffice-writer-nogui postgresql python3-ipykernel python3-setuptools python3-venv qpdf redis-server ripgrep rsync ruby rustc screen sqlite3 tidy tmux tree unzip valgrind vim xz-utils zip"

var table = map[string]pkg{
	"cmd/nsrun":                  {seconds: 75, slow: 85, slice: 6, race: 150, needs: "bubblewrap python3 nodejs git musl-tools openssh-client gpg gpg-agent"},
	"cmd/nsrun/internal/session": {quick: true, seconds: 7, race: 12},
	"cmd/nsbench":                {seconds: 15, race: 30},
	"e2e":                        {seconds: 65, once: true, slow: 110, slice: 6},
	"e2e/bwrap":                  {seconds: 90, once: true, slow: 500, slice: 6, needs: "bubblewrap"},
	"e2e/clients":                {once: true, leaves: true, slow: 60, slice: 7, more: "bubblewrap"},
	"e2e/container":              {once: true, leaves: true, slow: 15, slice: 7, more: docker},
	"e2e/docker":                 {once: true, leaves: true, slow: 150, slice: 7, more: docker},
	"e2e/backend":                {seconds: 90, once: true, slow: 450, slice: 7, apart: part{"failed looks", "TestAFailedLook", 600, 8}, needs: "bubblewrap", more: docker},
	"e2e/explain":                {seconds: 90, once: true, slow: 150, slice: 5, needs: "curl gcc git libc6-dev make mawk mount nodejs openssh-client perl python3 sqlite3 strace"},
	"e2e/network":                {seconds: 105, needs: "curl wget openssl python3 python3-pip nodejs npm redis-tools git bash iproute2 openjdk-17-jdk-headless bind9-dnsutils openssh-client postgresql-client"},
	"e2e/host":                   {seconds: 13, once: true},
	"e2e/programs":               {seconds: 45, slow: 300, slice: 7, needs: "cargo gcc git jq libc6-dev make nodejs npm python3 python3-pytest strace", more: everyday},
	"e2e/vagrant":                {once: true, leaves: true, slow: 30, slice: 7, more: "busybox vagrant vagrant-libvirt"},
	"e2e/vm":                     {seconds: 11, once: true, leaves: true, slow: 15, slice: 5, more: machines},
	"internal/doctest":           {quick: true, seconds: 1, once: true},
	"internal/sys":               {quick: true, seconds: 3, slow: 20, slice: 6, race: 5},
	"internal/runner":            {seconds: 65, slow: 90, slice: 6, race: 120},
	"nsrun":                      {seconds: 10, race: 20},
	"nsrun/audit":                {quick: true, seconds: 6, race: 8},
	"nsrun/bwrap":                {quick: true, seconds: 1},
	"nsrun/facts":                {quick: true, seconds: 1},
	"internal/agent":             {quick: true, seconds: 1, race: 4},
	"internal/backend":           {seconds: 30, slow: 400, slice: 6, race: 250, serial: "TestMutantsAreRejected"},
	"internal/denial":            {quick: true, seconds: 1},
	"internal/nethost":           {seconds: 20, slow: 40, slice: 6, race: 40, needs: "curl openssl python3 bind9-dnsutils"},
	"internal/importcheck":       {quick: true, seconds: 1},
	"internal/netlink":           {quick: true, seconds: 1},
	"internal/nethelper":         {quick: true, seconds: 2, race: 5},
	"internal/netmessage":        {quick: true, seconds: 1},
	"internal/netparse":          {quick: true, seconds: 2},
	"internal/probe":             {quick: true, seconds: 2},
	"internal/scope":             {quick: true, seconds: 5, race: 6, needs: "dbus-daemon"},
	"internal/spawner":           {quick: true, seconds: 1},
	"internal/wire":              {quick: true, seconds: 2, slow: 6, slice: 6, race: 6},
	"nsrun/load":                 {quick: true, seconds: 1, needs: "git"},
	"nsrun/manifest":             {quick: true, seconds: 5},
	"nsrun/plan":                 {quick: true, seconds: 1},
	"nsrun/policy":               {quick: true, seconds: 1},
	"nsrun/hostrun":              {quick: true, seconds: 1, needs: "git"},
	"nsrun/tools":                {quick: true, seconds: 1, needs: "git"},
	"internal/watch":             {seconds: 8, slow: 25, slice: 6, needs: "git"},
	"nsrun/commands":             {quick: true, seconds: 1},
	"nsrun/netrule":              {quick: true, seconds: 1},
	"landlock":                   {quick: true, seconds: 1},
	"mounts":                     {quick: true, seconds: 2},
	"rlimit":                     {quick: true, seconds: 1},
	"rlimit/cgroup":              {seconds: 3},
	"scripts/runtests":           {quick: true, seconds: 3, once: true},
	"seccomp":                    {quick: true, seconds: 3, slow: 15, slice: 6},
}

// testPrograms are what tests start, beside cmd/nsrun.
var testPrograms = []string{"cmd/nsrun-helper", "e2e/testdata/probe", "e2e/testdata/names", "e2e/bwrap/testdata/fingerprint", "e2e/backend/testdata/act", "e2e/backend/testdata/unlucky", "e2e/host/testdata/lock", "e2e/explain/testdata/hostile",
	"e2e/container/testdata/inside", "e2e/docker/testdata/probe", "e2e/network/testdata/goclient", "e2e/network/testdata/h3client", "e2e/network/testdata/without", "e2e/network/testdata/library", "e2e/network/testdata/alone"}

// pure are the packages that reach no system: they are vetted for another one, and tested on another processor.
var pure = []string{"./nsrun/policy", "./nsrun/facts", "./nsrun/plan", "./nsrun/result", "./nsrun/manifest", "./nsrun/bwrap", "./nsrun/commands", "./nsrun/netrule"}

// portable are the packages that build on another system.
var portable = append([]string{"./mounts", "./landlock", "./seccomp", "./rlimit", "./rlimit/cgroup"}, pure...)

// machines is what TestVM takes.
const machines = "qemu-system-x86 qemu-system-arm xz-utils cpio"

// guests are the parts of TestVM: boots, one at a time.
var guests = []struct {
	name    string
	pattern string // of boots
	slice   int
	seconds int // emulated, beside another one
}{
	{"5.10", "^5.10$", 1, 2000},
	{"6.1", "^6.1$", 2, 1500},
	{"6.18", "^6.18$", 2, 900},
	{"6.12", "^6.12$", 3, 2600},
	{"7.2", "^7.2$", 4, 2500},
	{"kinds of hosts", "^[^567]", 5, 2600},
}

// parts is into how many parts CI cuts what --all has beyond the fast tier.
const parts = 9

// runner makes stages.
type runner struct {
	users []who
	*builder
}

// stages lists the stages of a tier, the longest first.
func (r *runner) stages(ctx context.Context, upTo tier) ([]stage, error) {
	dirs, err := r.tested(ctx)
	if err != nil {
		return nil, err
	}
	for dir := range table {
		if !slices.Contains(dirs, dir) {
			return nil, fmt.Errorf("scripts/runtests/table.go has a row for %s, which has no tests", dir)
		}
	}
	list := r.checks()
	for _, dir := range dirs {
		list = append(list, r.packageStages(dir, table[dir])...)
	}
	list = append(list, r.rare()...)
	list = slices.DeleteFunc(list, func(s stage) bool { return s.tier > upTo })
	slices.SortStableFunc(list, func(a, b stage) int { return cmp.Compare(b.seconds, a.seconds) })
	return list, nil
}

// tested lists the directories of packages with tests.
func (r *runner) tested(ctx context.Context) (dirs []string, err error) {
	out, err := r.output(ctx, nil, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	for line := range strings.Lines(out) {
		if dir := strings.TrimPrefix(strings.TrimSpace(line), "github.com/nsrun/nsrun/"); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

// packageStages are those of one package.
func (r *runner) packageStages(dir string, p pkg) (list []stage) {
	for i, u := range r.users {
		if i > 0 && p.once {
			break
		}
		from := fast
		if p.quick && i == 0 {
			from = quick
		}
		if !p.leaves {
			list = append(list, r.tests(job{dir: dir, as: u, tier: fast}, stage{tier: from, seconds: p.seconds, packages: strings.Fields(p.needs)}))
		}
		if p.slow > 0 {
			list = append(list, r.slow(dir, p, u)...)
		}
	}
	if p.race > 0 {
		j := job{dir: dir, as: r.users[0], tier: fast, how: withRace}
		if p.serial != "" {
			j.args = []string{"-test.skip", "^" + p.serial + "$"}
		}
		list = append(list, r.tests(j, stage{tier: all, slice: 0, seconds: p.race, packages: strings.Fields("gcc libc6-dev " + p.needs)}))
	}
	return list
}

// slow are the stages of one package, as one user, that do more than the fast tier.
func (r *runner) slow(dir string, p pkg, u who) (list []stage) {
	j, packages := job{dir: dir, as: u, tier: all}, strings.Fields(p.needs+" "+p.more)
	if apart := p.apart; apart.tests != "" {
		j.only = "^" + apart.tests
		list = append(list, r.tests(j, stage{name: apart.name + " of ", tier: all, slice: apart.slice, seconds: apart.seconds, packages: packages}))
		j.only, j.args = "", []string{"-test.skip", "^" + apart.tests}
	}
	return append(list, r.tests(j, stage{name: "all of ", covers: dir + " as " + u.name, tier: all, slice: p.slice, seconds: p.slow, packages: packages}))
}

// tests is the stage of one job. Its name begins as s.name says.
func (r *runner) tests(j job, s stage) stage {
	s.name += j.dir + " as " + j.as.name
	if j.how.name != "" {
		s.name += ", " + j.how.name
	}
	if j.how.name == "" {
		j.how = plain
	}
	s.inputs.tests = j.dir
	if j.dir == "internal/doctest" || strings.HasSuffix(j.dir, "/importcheck") { // they read every file
		s.inputs.tests = ""
	}
	s.run = func(ctx context.Context, log io.Writer) (tally, error) { return j.run(ctx, r.builder, log) }
	return s
}
