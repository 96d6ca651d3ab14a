// Package netlink has the messages by which pid 1 of a sandbox makes the network of the mode allow: everything that the command sends to whatever
// address arrives at sockets of the sandbox's own network namespace, which are nsrun's.
//
// The messages are written by go generate, by the libraries that know them, since those would cost every start of nsrun time. None asks for an
// acknowledgement: the kernel answers only what it refuses, and before the call that has sent the message returns (netlink(7)).
//
// It protects against nothing: it is bytes, which only package stages sends and only package verify requires.
package netlink

//go:generate go run ./generate

// Port is the TCP port of the loopback that connections are redirected to.
const Port = 15001

// Routes4 and Routes6 are to be sent to NETLINK_ROUTE: all addresses belong to the loopback device then, as ip route add local default dev lo has it. It also
// gets an IPv4 address that is none of the loopback: a C library that has only those asks for no IPv4 address of a name (AI_ADDRCONFIG, getaddrinfo(3)).
func Routes4() []byte { return []byte(route4) }

// Routes6 is the same for IPv6.
func Routes6() []byte { return []byte(route6) }

// Redirect is to be sent to NETLINK_NETFILTER: all TCP connections but those to the loopback are redirected to [Port].
func Redirect() []byte { return []byte(redirect) }
