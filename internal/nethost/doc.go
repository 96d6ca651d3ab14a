// Package nethost is the host side of network mode "allow": it serves the sockets of one sandbox's network namespace. cmd/nsrun-helper runs it.
//
//	server, err := nethost.Serve(start, sockets, nethost.Options{Event: report})
//	...
//	summary := server.Close()
//
// A socket belongs to the network namespace in which it was made, so this process accepts the sandbox's connections without being in
// the namespace, and connects from the host. For each connection:
//
//  1. The kernel says where it was to go. An address of 198.18.0.0/15 stands for a name: the answers to DNS queries gave it out, for names that
//     a rule lists and for no others. Nothing is asked of the host's resolver so far.
//  2. The rules decide by name and port, or by address and port.
//  3. What the client says first is checked: TLS and HTTP must name what was looked up. A client that waits is connected before, since the server
//     may speak first; its first bytes are checked when they come.
//  4. The name is looked up once. Addresses that the guard refuses (netrule.Guard, and the host's own) are left out, unless a rule lists the
//     address itself. Then the host connects to one of the checked addresses.
//  5. Both ways are carried, within caps. In HTTP each request is checked; in UDP on port 443 each ClientHello of QUIC.
//
// Refusals are answered in the form that the client understands, counted, and reported.
//
// What the package does not protect against: data that leaves through a listed host, in the port, the timing or the first bytes of a connection, or
// by another name inside of TLS (the Host there, or Encrypted ClientHello). A rule such as *.example.com lets data leave in the names that are looked
// up. TLS that begins later in a connection (STARTTLS) and the requests inside of a protocol that is neither TLS nor HTTP are not read. A client that
// is connected before it speaks shows a listed server that it is there. A listed name leads to whatever address its owner gives it that the
// guard allows. The package reads bytes of an attacker; cmd/nsrun-helper is confined for that reason.
package nethost
