package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Find returns command rules by their name: built-in ones, or some of own. The error of a name that is not known says which is near.
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
		return Set{}, fmt.Errorf("there are no command rules %q; did you mean %s?", name, near)
	}
	return Set{}, fmt.Errorf("there are no command rules %q; known are %s", name, strings.Join(names, ", "))
}

func builtin(name string) Set {
	s := Set{Name: name, Rules: rules(Passive)}
	if name == Full {
		s.Rules = append(s.Rules, rules(Full)...)
	}
	return s
}

// made are a user's own command rules.
func made(p policy.CommandRules) (Set, error) {
	s := Set{Name: p.Name}
	switch {
	case slices.Contains(Names, p.Name):
		return s, fmt.Errorf("%s names built-in command rules; choose another name", p.Name)
	case p.Name == "" || policy.CheckText(p.Name) != nil:
		return s, fmt.Errorf("%q is not a name for command rules", p.Name)
	case p.Extends != "" && !slices.Contains(Names, p.Extends):
		return s, fmt.Errorf("command rules %s: they extend %q; use passive or full", p.Name, p.Extends)
	case p.Extends != "":
		s.Rules = builtin(p.Extends).Rules
	}
	for _, program := range p.Programs {
		if err := CheckProgram(program.Name); err != nil {
			return s, fmt.Errorf("command rules %s: %w", p.Name, err)
		}
		for _, shape := range program.Shapes {
			if err := CheckShape(shape); err != nil {
				return s, fmt.Errorf("command rules %s, %s: %w", p.Name, program.Name, err)
			}
			s.Rules = append(s.Rules, Rule{Program: program.Name, Shape: shape})
		}
	}
	return s, nil
}

// Check finds what is wrong with the command rules of a policy, and with the name of those that it uses. Each fault is a [*policy.Fault].
func Check(p policy.Policy) error {
	var faults []error
	for i, own := range p.CommandRules {
		if _, err := made(own); err != nil {
			faults = append(faults, &policy.Fault{Field: fmt.Sprintf("command_rules[%d]", i), Text: err.Error()})
		}
		if slices.ContainsFunc(p.CommandRules[:i], func(o policy.CommandRules) bool { return o.Name == own.Name }) {
			faults = append(faults, &policy.Fault{Field: fmt.Sprintf("command_rules[%d]", i), Text: own.Name + " is given twice"})
		}
	}
	if p.Commands != "" && len(faults) == 0 {
		if _, err := Find(p.Commands, p.CommandRules); err != nil {
			faults = append(faults, &policy.Fault{Field: "commands", Text: err.Error()})
		}
	}
	return errors.Join(faults...)
}
