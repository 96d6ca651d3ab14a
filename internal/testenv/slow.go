package testenv

// SlowRow is a test that runs in the tier all only.
type SlowRow struct {
	Package string // its directory in the module
	Test    string // its name; empty for all tests of the package
	Promise string // what it tests, by id
	Guard   string // the test of the fast tier that guards the same promise: "directory TestName"
}

// SlowTests lists every test that has left the fast tier. A test has to check that each guard exists and is in the fast tier.
var SlowTests = []SlowRow{}
