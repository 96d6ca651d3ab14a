package plan

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// SeccompFilters lists the built-in filters with what each is for.
func SeccompFilters() (text string) {
	for _, name := range seccomp.Names() {
		p, _ := seccomp.Lookup(name) // it is one of them
		text += fmt.Sprintf("%-8s %s\n", name, p.Doc)
	}
	return text
}

// SeccompText says what a filter, with further calls denied, lets through on an architecture, a GOARCH word, and prints the program that
// decides: a comment stands beside each comparison.
func SeccompText(s policy.Seccomp, goarch string) (string, error) {
	p, a, err := lookupFilter(s, goarch)
	if err != nil {
		return "", err
	}
	f, err := seccomp.Compile(p, a)
	if err != nil {
		return "", err
	}
	what, err := p.Describe(a)
	if err != nil {
		return "", err
	}
	always, some, err := p.Reach(a)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("filter %s on %s: %s\n%s\nreachable: %s\nreachable by arguments: %s\n\n%d instructions:\n%s", s.Filter, goarch, p.Doc, what,
		strings.Join(always, " "), strings.Join(some, " "), len(f), f.Annotate(a)), nil
}

// SeccompDiff lists which calls only one of two filters lets through on an architecture: see [seccomp.Diff].
func SeccompDiff(from, to, goarch string) (text string, err error) {
	a, arch, err := lookupFilter(policy.Seccomp{Filter: from}, goarch)
	if err != nil {
		return "", err
	}
	b, _, err := lookupFilter(policy.Seccomp{Filter: to}, goarch)
	if err != nil {
		return "", err
	}
	lines, err := seccomp.Diff(a, b, arch)
	for _, line := range lines {
		text += line + "\n"
	}
	return text, err
}

// SeccompProgram compiles a built-in filter, with further calls denied, into one BPF program for an architecture: 8 bytes an instruction, as
// policy.Seccomp has it in Raw.
func SeccompProgram(s policy.Seccomp, goarch string) ([]byte, error) {
	p, a, err := lookupFilter(s, goarch)
	if err != nil {
		return nil, err
	}
	f, err := seccomp.Compile(p, a)
	if err != nil {
		return nil, err
	}
	return f.Bytes(), nil
}

// SeccompJSON compiles a profile in the JSON of Docker and the OCI runtimes for an architecture, in builds that have libseccomp.
func SeccompJSON(data []byte, goarch string) ([]byte, error) {
	a, err := knownArch(goarch)
	if err != nil {
		return nil, err
	}
	f, err := seccomp.CompileOCI(data, a)
	if err != nil {
		return nil, err
	}
	return f.Bytes(), nil
}

func lookupFilter(s policy.Seccomp, goarch string) (seccomp.Profile, seccomp.Arch, error) {
	a, err := knownArch(goarch)
	if err != nil {
		return seccomp.Profile{}, 0, err
	}
	p, err := seccomp.Lookup(s.Filter)
	if err != nil {
		return p, 0, err
	}
	if _, err := seccomp.Deny(s.Deny, a); err != nil && len(s.Deny) > 0 { // it knows what starting a program needs
		return p, 0, fmt.Errorf("seccomp deny: %w", err)
	}
	return p.Without(s.Deny...), a, nil
}

func knownArch(goarch string) (seccomp.Arch, error) {
	if a := arch(goarch); a != 0 {
		return a, nil
	}
	return 0, fmt.Errorf("architecture %q: use amd64 or arm64", goarch)
}
