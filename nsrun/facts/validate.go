package facts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Validate reports every fault of facts that come from a file: features that the table has not got and states that are none, in the order
// of their names. nil means that a plan may be made by them.
func (f Facts) Validate() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(f.Answers)) {
		if _, ok := Lookup(name); !ok {
			faults = append(faults, fmt.Errorf("features: %q is not a feature; nsrun doctor has their names", name))
		}
		switch state := f.Answers[name].State; state {
		case Yes, No, Unknown:
		default:
			faults = append(faults, fmt.Errorf("features: %s: the state %q is unknown; use yes, no or unknown", name, state))
		}
	}
	if f.LandlockABI < 0 {
		faults = append(faults, fmt.Errorf("landlock_abi: %d is not an ABI; 0 means none", f.LandlockABI))
	}
	for i, g := range f.Groups {
		if g.Version != 1 && g.Version != 2 || !strings.HasPrefix(g.Dir, "/") {
			faults = append(faults, fmt.Errorf("cgroups[%d]: version %d at %q is no cgroup tree; use version 1 or 2, and an absolute path", i, g.Version, g.Dir))
		}
	}
	if m := f.Manager; m != nil && (!strings.HasPrefix(m.Socket, "/") || !strings.HasPrefix(m.Tree, "/")) {
		faults = append(faults, fmt.Errorf("manager: socket %q, tree %q: use absolute paths", m.Socket, m.Tree))
	}
	return errors.Join(faults...)
}
