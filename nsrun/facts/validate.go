package facts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
	return errors.Join(faults...)
}
