// Package bwrap_test compares the bwrap compat mode of nsrun with bubblewrap itself.
//
// Each case is a command line with what it needs: files of the host, descriptors, environment. It is run by the bubblewrap that is
// followed (0.13.1) and by the binary under test, in directories of equal names, and everything that can be seen of the two runs is
// compared: exit status, diagnostics, what a program inside finds (testdata/fingerprint), what is left on the host. As root the cases
// run as root and as a user that exists only as a number.
//
//	go test ./e2e/bwrap                                        all cases
//	go test ./e2e/bwrap -run 'TestCompatMode/user/symlink'    some of them
//	NSRUN_BWRAP_UNDER_TEST=/path go test ./e2e/bwrap           another binary than nsrun
//	go test ./e2e/bwrap -run TestOracles                       older bubblewraps against the newest
//	NSRUN_BWRAP_SHOW=1 go test ./e2e/bwrap -v -run ...         also print what the followed version does
//
// Where versions of bubblewrap differ, the table in differences_test.go says so; TestOracles fails when it does not. Newer
// bubblewraps come from scripts/oracles.sh. Where CI is set, a missing part of the host is a failure, else a skip.
package bwrap_test
