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
// As root, e2e and e2e/bwrap try every case as an ordinary user, too. Cases and scenes are the same on every host. Fault points and failed looks
// are calls of a run, and these depend on the host (a directory with a symlink in /etc is a call more): their floors lie 4 % lower.
var floors = []floor{
	{"e2e as root", "attack cases", 409},
	{"all of e2e as root", "attack cases", 409},
	{"e2e as ", "attack cases", 195},
	{"e2e/bwrap as root", "bwrap scenes", 3298},
	{"all of e2e/bwrap as root", "bwrap scenes", 8400},
	{"e2e/bwrap as ", "bwrap scenes", 1390},
	{"e2e/backend as root", "failed looks", 265},
	{"failed looks of e2e/backend as root", "failed looks", 7900},
	{"e2e/backend as root", "kills", 200},
	{"all of e2e/backend as root", "kills", 4000},
	{"internal/watch as ", "places and ways to change them", 640},
	{"internal/backend as root", "fault points", 2200},
	{"internal/backend as ", "fault points", 2000},
	{"internal/backend as root", "rejected mutants", 114000},
	{"internal/backend as ", "rejected mutants", 71000}, // whose sandboxes have fewer masks
	{"all of internal/backend as root", "rejected mutants", 840000},
	{"all of internal/backend as ", "rejected mutants", 520000},
	{"all of internal/backend as root", "fault points", 9000},
	{"all of internal/backend as ", "fault points", 7000},
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
