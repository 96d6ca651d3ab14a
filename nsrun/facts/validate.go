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
			faults = append(faults, fmt.Errorf("features: %q is not a feature%s", name, DidYouMean(string(name))))
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

// DidYouMean returns `; did you mean "landlock"?` for a word that is nearly the name of a feature, and nothing for any other.
func DidYouMean(word string) string {
	var nearest Name
	least := max(2, len(word)/3) + 1
	for i := range Table {
		if d := distance(word, string(Table[i].Name)); d < least {
			nearest, least = Table[i].Name, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", nearest)
}

// distance is the number of letters to add, drop or change that makes b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
