// Package network tests the network allow from outside: unmodified clients in sandboxes, as root and as an ordinary user, in an internet of the test's
// own. That is three network namespaces: the sandbox's; the "host", where nsrun runs and whose resolv.conf and hosts file are the test's; and the
// "internet" behind a pair of veth devices, where every address of 203.0.113.0/24 and of 192.0.2.0/24 answers. What passes between the last two is
// captured, and the resolver there counts, so that a test can say what has left the host.
package network
