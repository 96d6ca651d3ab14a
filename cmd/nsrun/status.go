package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// backendStatus is one backend in status --json.
type backendStatus struct {
	Name      string   `json:"name"`
	Available bool     `json:"available"` // it can carry out the default policy here
	Version   string   `json:"version,omitempty"`
	Path      string   `json:"path,omitempty"`
	Why       string   `json:"why,omitempty"`   // it is not available
	Loses     []string `json:"loses,omitempty"` // guarantees that it does not give here, or anywhere if it is not available
}

// status is what status --json prints.
type status struct {
	// Active says that a run is sandboxed: the sandbox is not switched off, and there is a backend for it.
	Active bool `json:"active"`
	// Backend is what a run of the default policy would use now, with the fallback and the requirements of the environment; empty if it
	// would be refused.
	Backend  string `json:"backend,omitempty"`
	Why      string `json:"why,omitempty"`      // it would be refused
	Disabled string `json:"disabled,omitempty"` // by what variable the sandbox is switched off
	Fallback string `json:"fallback"`
	// Require is what the environment requires.
	Require  []string        `json:"require,omitempty"`
	Ceiling  []string        `json:"ceiling,omitempty"` // files that cut runs down
	Backends []backendStatus `json:"backends"`
}

// statusFlags are those of status.
type statusFlags struct{ asJSON bool }

func (f *statusFlags) rows() []flagRow {
	return []flagRow{{"--json", &f.asJSON, "print the status as JSON", ""}}
}

func (a *app) status(args []string) int {
	var f statusFlags
	fs := newFlags("status", f.rows()...)
	if err := a.parseAll(fs, args); err != nil {
		return a.fail(err)
	}
	s, err := a.statusHere()
	if err != nil {
		return a.fail(err)
	}
	if f.asJSON {
		return a.printed(indented(s))
	}
	return a.print(printable(s.String()))
}

// statusHere asks this host in full, and plans the default policy for each backend.
func (a *app) statusHere() (status, error) {
	var f flags
	pol, err := f.switches(runner.DefaultPolicy())
	if err == nil {
		pol, err = f.normalize(pol)
	}
	for _, name := range commands.Names { // a ceiling may want one; it has no say in what is asked here
		if err != nil {
			pol.Commands = name
			pol, err = f.normalize(pol)
		}
	}
	if err != nil {
		return status{}, err
	}
	known := probe.Full()
	s := status{Fallback: string(policy.Strict), Require: pol.Require, Ceiling: f.protected}
	if pol.Fallback == policy.Degrade {
		s.Fallback = string(policy.Degrade)
	}
	if pol.Bare() {
		s.Disabled = envSandbox + "=" + os.Getenv(envSandbox)
	}
	s.Backend, s.Why = a.backendFor(pol, known)
	s.Active = s.Backend != "" && s.Backend != plan.BackendNone
	s.Backends = a.backends(known)
	return s, nil
}

// backends says what each backend is worth here.
func (a *app) backends(known facts.Facts) (all []backendStatus) {
	for _, name := range plan.Backends() {
		all = append(all, a.backendStatus(name, known))
	}
	return all
}

// compile plans a policy for no command in particular.
func (a *app) compile(pol policy.Policy, known facts.Facts) (*plan.Plan, error) {
	pol.Commands = "" // it is asked about commands, and there is none
	return plan.Compile(plan.Request{Policy: pol, Command: []string{"true"}, Environ: a.environ, Sole: true, Private: runner.PrivatePlace(pol)}, known)
}

// backendFor plans a policy, and says what backend that comes to or why it comes to none.
func (a *app) backendFor(pol policy.Policy, known facts.Facts) (backend, why string) {
	p, why := a.planFor(pol, known)
	if p == nil {
		return "", why
	}
	return p.Backend, ""
}

func (a *app) planFor(pol policy.Policy, known facts.Facts) (p *plan.Plan, why string) {
	p, err := a.compile(pol, known)
	var lacks *plan.CompatibilityError
	switch {
	case errors.As(err, &lacks):
		var words []string
		for _, n := range plan.Together(lacks.Unmet) {
			words = append(words, n.String())
		}
		return nil, strings.Join(words, "; ")
	case err != nil:
		return nil, err.Error()
	}
	return p, ""
}

func (a *app) backendStatus(name string, known facts.Facts) backendStatus {
	pol := runner.DefaultPolicy()
	pol.Backend = policy.Backend(name)
	s := backendStatus{Name: name, Loses: plan.Loses(name)}
	var p *plan.Plan
	if p, s.Why = a.planFor(pol, known); p != nil {
		s.Available, s.Loses = true, p.Lost()
	}
	switch name {
	case plan.BackendBwrap:
		s.Version, s.Path = installed(known, facts.Bwrap)
	case plan.BackendDocker:
		if s.Version, s.Path = installed(known, facts.Docker); s.Path == "" {
			s.Version, s.Path = installed(known, facts.Podman)
		}
	default:
		s.Version = version
	}
	return s
}

// installed takes the version and path out of what a probe says of another program: "0.8.0 (/usr/bin/bwrap)".
func installed(known facts.Facts, name facts.Name) (version, path string) {
	if known.State(name) != facts.Yes {
		return "", ""
	}
	version, path, _ = strings.Cut(known.Answers[name].Detail, " (")
	return version, strings.TrimSuffix(path, ")")
}

// String is the status for people.
func (s status) String() string {
	var out strings.Builder
	switch {
	case s.Disabled != "":
		fmt.Fprintf(&out, "the sandbox is switched off by %s\n", s.Disabled)
	case s.Active:
		fmt.Fprintf(&out, "runs are sandboxed, by the backend %s\n", s.Backend)
	default:
		fmt.Fprintf(&out, "runs are refused: %s\n", s.Why)
	}
	words := []string{"fallback " + s.Fallback}
	if len(s.Require) > 0 {
		words = append(words, "required: "+strings.Join(s.Require, " "))
	}
	if len(s.Ceiling) > 0 {
		words = append(words, "ceiling: "+strings.Join(s.Ceiling, " "))
	}
	fmt.Fprintf(&out, "%s\n\n", strings.Join(words, ", "))
	for _, e := range s.Backends {
		out.WriteString(e.String())
	}
	return out.String()
}

// String is one backend in a few lines.
func (e backendStatus) String() string {
	state := "available"
	if !e.Available {
		state = "not here"
	}
	text := strings.TrimRight(fmt.Sprintf("%-8s  %-9s  %s", e.Name, state, strings.TrimSpace(e.Version+" "+e.Path)), " ") + "\n"
	if e.Why != "" {
		text += "    why:   " + e.Why + "\n"
	}
	if len(e.Loses) > 0 {
		text += "    loses: " + strings.Join(e.Loses, " ") + "\n"
	}
	return text
}
