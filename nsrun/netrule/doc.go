// Package netrule has the rules of the network mode "allow": which hosts and ports a sandbox may reach, and which addresses no name may lead to.
//
//	rule, notes, err := netrule.Parse("https://*.pypi.org")
//	rule, ok := netrule.Rules{rule}.Name("files.pypi.org", 443, false)
//
// A rule is [scheme://]host[:ports][+force]:
//
//	example.com         TCP, ports 80 and 443; where TLS or HTTP is spoken, it must name this host
//	example.com:22      another port; 8000-8999 is a range
//	*.pypi.org          every name below pypi.org, at any depth, and not pypi.org itself
//	https://host        TLS with this name is required; port 443 unless another one is given
//	http://host         HTTP with this Host is required; port 80 unless another one is given
//	udp://host:123      UDP; the port is required
//	10.0.0.0/8:5432     an address or a block; IPv6 in brackets: [2001:db8::1]:22, [2001:db8::]/32
//	169.254.169.254:80+force  the metadata service of a cloud, which needs +force
//
// Everything that no rule names is refused, so an empty list refuses everything. [Canonical] makes one form of everything that a client may write; after
// that, names are compared label by label. A name never matches an address, and a block never matches a name.
//
// The package is pure: it looks nothing up. It does not know the host's own public addresses, which the caller adds to [Guard], and it
// does not know a network's own NAT64 prefix or ISATAP. It has no list of public suffixes: *.co.uk and *.github.io are accepted, and cover
// strangers' names. It does not check that an xn-- label is valid, or that it cannot be mistaken for another one. A rule bounds where data goes, not which
// data, and a listed host may pass data on.
package netrule
