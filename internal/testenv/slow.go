package testenv

// SlowRow is a test, or all tests of a package, that runs in the tier all only.
type SlowRow struct {
	Package string // its directory in the module
	Test    string // its name; empty for all tests of the package
	Part    string // if not empty, only this part of the test has left
	Promise string // what it proves, in words or by the id of the attack case
	Guard   string // the test of the fast tier that guards the same promise: "directory TestName"
}

// SlowTests lists every test that has left the fast tier. A test in internal/importcheck checks that each guard exists and is fast.
var SlowTests = []SlowRow{
	{Package: "e2e", Test: "TestVM", Promise: "H1: the promises hold on other kernels", Guard: "e2e/host TestLockedDownHosts"},
	{Package: "e2e/bwrap", Test: "TestOracles", Promise: "D1: bubblewrap's command line, by its other versions", Guard: "e2e/bwrap TestCompatMode"},
	{Package: "e2e/clients", Promise: "D2: programs that call bwrap notice nothing", Guard: "e2e/bwrap TestCompatMode"},
	{Package: "e2e/container", Promise: "C3: in a container, the strongest backend that works is used", Guard: "e2e/host TestLockedDownHosts"},
	{Package: "e2e/docker", Promise: "C1: backend docker", Guard: "internal/backend TestViewIsCarried"},
	{Package: "e2e/backend", Test: "TestContract", Part: "backend docker", Promise: "C7: the same contract on every backend", Guard: "nsrun/plan TestTraitsAreComplete"},
	{Package: "e2e/vagrant", Promise: "H1: tests on other distributions", Guard: "e2e/host TestLockedDownHosts"},
	{Package: "e2e/vm", Promise: "H1: the harness of the virtual machines", Guard: "e2e/vm/guest TestFramesComeBack"},
}
