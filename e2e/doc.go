// Package e2e holds the tests that try to break out of nsrun. There is nothing in it to import.
//
// Each attack case names an attempt. It is made three times by one small program, testdata/probe: inside a sandbox of nsrun,
// where it must be refused in the way that the case expects; seen from the host, where nothing may have happened; and without a
// sandbox as the same user, where it must succeed, since else the refusal was not ours. A case that the host refuses to that user anyway has
// no such control; the score counts those that have one. The cases run as root, when the test does, and
// as an ordinary user:
//
//	go test ./e2e/ -v -run 'TestAttackCases/as_user/FS01'
//
// The ordinary user is NSRUN_TEST_USER, or one that exists only as a number. Where CI is set, a missing part of the host is a failure,
// else a skip. NSRUN_E2E_LONG makes the long cases longer; NSRUN_E2E_BWRAP=1 lets bwrap answer the same questions and logs its score.
//
// It does not protect against anything: a promise without a case is not tested, and attack_linux_test.go says which cases are missing.
package e2e
