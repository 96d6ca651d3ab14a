// Package agent stands between a command and the SSH agent of its user: a socket on which it passes on what lists keys and what signs with them, and
// answers everything else itself, as a failure. So a command can use the keys, and can neither take, add nor remove one, nor lock the agent.
//
//	f, err := agent.Start("/home/me/.local/state/nsrun/run/x", "agent", "/tmp/ssh-x/agent.1")
//	defer f.Close()
//
// The messages are those of draft-ietf-sshm-ssh-agent. Their first byte alone counts, and nothing is parsed: golang.org/x/crypto/ssh/agent would
// parse what need not be parsed, and link cryptography into every start.
//
// What this package does not protect against: a command can sign whatever it likes with every key in the agent, and so log in wherever the network lets
// it. Keys that ask for confirmation (ssh-add -c) ask for each.
package agent
