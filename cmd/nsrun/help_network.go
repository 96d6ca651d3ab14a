package main

import (
	"fmt"
	"strings"
)

// ruleExamples are rules of the network allow, and what they permit.
var ruleExamples = [][2]string{
	{"example.com", "TCP to ports 80 and 443; what speaks TLS or HTTP must name this host"},
	{"example.com:22", "another port; 8000-8999 is a range"},
	{"*.pypi.org", "all names below pypi.org, at any depth, and not pypi.org itself"},
	{"https://example.com", "TLS with this name and nothing else; port 443 unless one is given"},
	{"http://example.com", "HTTP with this Host and nothing else; port 80 unless one is given"},
	{"udp://example.com:123", "UDP; the port is required"},
	{"10.0.0.0/8:5432", "addresses, which no name stands for; IPv6 as [2001:db8::1]:22"},
	{"169.254.169.254:80+force", "the metadata service of a cloud, which takes the word force"},
}

// networkHelp says what --net takes.
func networkHelp() string {
	var out strings.Builder
	out.WriteString(wrap("What --net, or \"network\" of a manifest, gives: none is a loopback of the sandbox's own; host is the host's network; allow:RULE,... is a network of "+
		"the sandbox's own, from which what the rules name can be reached by any program, and nothing else. In a manifest: \"network\": {\"allow\": [\"RULE\"]}. "+
		"--net allow may be given again, and adds to the manifest's rules; a ceiling cuts them.", 112))
	for _, row := range ruleExamples {
		fmt.Fprintf(&out, "\n  %s\n", row[0])
		for line := range strings.Lines(wrap(row[1], 104)) {
			fmt.Fprintf(&out, "      %s", line)
		}
	}
	out.WriteString("\n" + wrap("Names are answered inside, and asked for on the host only when something connects to them. A name that leads to the host itself, to a private network or "+
		"to a metadata service is refused unless a rule lists that address. What is refused is in the result, and on stderr after a command that failed. The program "+
		"nsrun-helper connects for the sandbox: a release of nsrun has it in itself, else it has to lie beside nsrun.", 112))
	out.WriteString("\n" + wrap("--ask PROGRAM decides about what no rule allows, while the connection waits. PROGRAM is started outside of the sandbox, without a shell, for each question, "+
		`with a line such as {"name":"pypi.org","port":443,"rule":"pypi.org:443"} on its standard input; a host without a name has an address. It answers by one line: once; session, `+
		"which adds the rule for the rest of the run; or deny, and a reason. Anything else, and no answer within --ask-timeout, denies. An answer opens no address that a rule "+
		"for the name would not, and nothing beyond a ceiling.", 112))
	return out.String()
}
