// Package clients_test lets programs that sandbox with bubblewrap do so with nsrun.
//
// A client runs as its users run it and does its job on real files: mat2 takes metadata out of pictures, opam builds a package, ansible-runner
// plays a playbook, GNOME makes a thumbnail, @anthropic-ai/sandbox-runtime keeps commands from a secret and from the network. Each does so
// twice, with nsrun called bwrap and with the machine's own bubblewrap, and what came of it must be what is written down here both
// times. That a client did call bwrap is seen from a script, first on its PATH, that writes the call down. Clients that would be too
// much to install are stood in for by their command lines (standin_test.go).
//
//	scripts/clients.sh                                     installs the clients (the tests do that, too, as root)
//	go test ./e2e/clients                                  all of them
//	go test ./e2e/clients -run 'TestClients/user/opam'     one, as the ordinary user
//
// As root everything runs as root and as a user that exists only as a number. Where CI is set, a missing client is a failure, else a skip.
//
// It does not show that the sandboxes hold against an attacker: e2e and e2e/bwrap try that.
package clients_test
