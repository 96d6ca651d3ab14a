package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Find returns a profile by its name: a built-in one, or one of own. The error of a name that is not known says which is near.
func Find(name string, own []policy.CommandRules) (Set, error) {
	if slices.Contains(Names, name) {
		return builtin(name), nil
	}
	names := slices.Clone(Names)
	for _, p := range own {
		if p.Name == name {
			return made(p)
		}
		names = append(names, p.Name)
	}
	if near, ok := policy.Nearest(name, names); ok {
		return Set{}, fmt.Errorf("there is no profile %q; did you mean %s?", name, near)
	}
	return Set{}, fmt.Errorf("there is no profile %q; known are %s", name, strings.Join(names, ", "))
}

func builtin(name string) Set {
	s := Set{Name: name, Rules: rules(Passive)}
	if name == Full {
		s.Rules = append(s.Rules, rules(Full)...)
	}
	return s
}

// made is a profile of a user's own.
func made(p policy.CommandRules) (Set, error) {
	s := Set{Name: p.Name}
	switch {
	case slices.Contains(Names, p.Name):
		return s, fmt.Errorf("%s is a built-in profile; choose another name", p.Name)
	case p.Name == "" || policy.CheckText(p.Name) != nil:
		return s, fmt.Errorf("%q is not a profile's name", p.Name)
	case p.Extends != "" && !slices.Contains(Names, p.Extends):
		return s, fmt.Errorf("profile %s extends %q; use passive or full", p.Name, p.Extends)
	case p.Extends != "":
		s.Rules = builtin(p.Extends).Rules
	}
	for _, program := range p.Programs {
		if err := CheckProgram(program.Name); err != nil {
			return s, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		for _, shape := range program.Shapes {
			if err := CheckShape(shape); err != nil {
				return s, fmt.Errorf("profile %s, %s: %w", p.Name, program.Name, err)
			}
			s.Rules = append(s.Rules, Rule{Program: program.Name, Shape: shape})
		}
	}
	return s, nil
}

// Check finds what is wrong with the profiles of a policy, and with the name of the one that it uses. Each fault is a [*policy.Fault].
func Check(p policy.Policy) error {
	var faults []error
	for i, own := range p.CommandRules {
		if _, err := made(own); err != nil {
			faults = append(faults, &policy.Fault{Field: fmt.Sprintf("profiles[%d]", i), Text: err.Error()})
		}
		if slices.ContainsFunc(p.CommandRules[:i], func(o policy.CommandRules) bool { return o.Name == own.Name }) {
			faults = append(faults, &policy.Fault{Field: fmt.Sprintf("profiles[%d]", i), Text: own.Name + " is given twice"})
		}
	}
	if p.Commands != "" && len(faults) == 0 {
		if _, err := Find(p.Commands, p.CommandRules); err != nil {
			faults = append(faults, &policy.Fault{Field: "profile", Text: err.Error()})
		}
	}
	return errors.Join(faults...)
}
