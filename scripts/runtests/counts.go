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
			for what, n := range counts {
				if got.counts[what] < n {
					err = errors.Join(err, fmt.Errorf("%s: %d, and it may not be less than %d", what, got.counts[what], n))
				}
			}
		}
	}
	return err
}
