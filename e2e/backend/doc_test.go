// Package backend_test is the contract of nsrun's backends: one suite that each of them passes, as root and as an ordinary user.
//
// The command is driven from outside. A program inside, testdata/act, does what a guarantee forbids or allows; the same is done without a
// sandbox by the same user, where it must succeed. Then the receipt of the run is held against it: a guarantee that it says holds must be
// seen to hold, and one that it says is lost must be seen to be lost, with a note that names it.
//
//	go test ./e2e/backend                                        all backends
//	go test ./e2e/backend -v -run 'TestContract/as/user/landlock'   one, and its part of the matrix
//
// The ordinary user is NSRUN_TEST_USER, or one that exists only as a number. Where CI is set, a missing part of the host is a failure,
// else a skip that says what is missing.
package backend_test
