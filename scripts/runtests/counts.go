package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// floor is the least that a stage has to count on a host that has everything, as CI's has.
type floor struct {
	stage string // how its name begins: "e2e as root"
	what  string // what is counted, as testenv.Count calls it
	least int
}

// floors are checked where CI is set, and printed elsewhere. What is counted may grow; to lower a number here takes a reason in the commit.
// As root, e2e and e2e/bwrap try every case as an ordinary user, too.
var floors = []floor{
	{"e2e as root", "attack cases", 403},
	{"all of e2e as root", "attack cases", 403},
	{"e2e as ", "attack cases", 195},
	{"e2e/bwrap as root", "bwrap scenes", 2800},
	{"all of e2e/bwrap as root", "bwrap scenes", 8400},
	{"e2e/bwrap as ", "bwrap scenes", 1390},
	{"nsrun/internal/engine as root", "fault points", 2480},
	{"nsrun/internal/engine as ", "fault points", 2230},
	{"all of nsrun/internal/engine as root", "fault points", 10200},
	{"all of nsrun/internal/engine as ", "fault points", 8080},
}

// tooFew returns an error if a stage counted less than the first floor for it that fits.
func (s stage) tooFew(got tally) (err error) {
	seen := map[string]bool{}
	for _, f := range floors {
		if seen[f.what] || !strings.HasPrefix(s.name, f.stage) || strings.Contains(s.name, ", ") {
			continue // a special build can leave something out
		}
		seen[f.what] = true
		if n := got.counts[f.what]; n < f.least {
			err = errors.Join(err, fmt.Errorf("%s: %d %s, which may not be less than %d (scripts/runtests/counts.go)", s.name, n, f.what, f.least))
		}
	}
	if err != nil && os.Getenv("CI") == "" {
		fmt.Println("on this host:", err)
		return nil
	}
	return err
}
