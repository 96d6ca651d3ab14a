package main

import (
	"errors"
	"fmt"
	"strings"
)

// least are the fewest of what a stage has to count, by the beginning of its name. What it counts may grow; a smaller number needs a reason
// in the commit that lowers it here.
var least = map[string]map[string]int{}

// tooFew returns an error if a stage counted less than it has to.
func (s stage) tooFew(got tally) (err error) {
	for name, counts := range least {
		if strings.HasPrefix(s.name, name) {
			err = errors.Join(err, s.demand(counts, got))
		}
	}
	return err
}

func (s stage) demand(counts map[string]int, got tally) (err error) {
	for what, n := range counts {
		if got.counts[what] < n {
			err = errors.Join(err, fmt.Errorf("%s counted %d %s, and it may not be less than %d", s.name, got.counts[what], what, n))
		}
	}
	return err
}
