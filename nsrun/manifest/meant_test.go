package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
)

// TestMeantKeysExist: the table names no key that a record has already, and leads to keys that are there.
func TestMeantKeysExist(t *testing.T) {
	known := map[string][]string{
		"a manifest": manifestForm().names(), "limits": limitsForm().names(), "a mount": mountForm().names(), "a capability": capabilityForm().names(),
		"seccomp": filterForm().names(), "a set of command rules": commandRulesForm().names(), "a ceiling": ceilingForm().names(),
	}
	seen := map[string]bool{}
	for _, m := range meants {
		assert.Contains(t, known, m.in)
		for name := range strings.FieldsSeq(m.names) {
			assert.NotContains(t, known[m.in], name, "%s has this key", m.in)
			assert.False(t, seen[m.in+" "+name], "%s of %s is there twice", name, m.in)
			seen[m.in+" "+name] = true
		}
		for key := range strings.FieldsSeq(m.keys) {
			assert.Contains(t, known[m.in], key, "%s leads nowhere", m.names)
		}
	}
	for _, row := range slices.Concat(policy.LimitTable, policy.TimeTable) {
		for name := range strings.FieldsSeq(row.Aliases) {
			assert.NotContains(t, known["limits"], name, "limits has this key")
		}
	}
	for name := range strings.FieldsSeq(commandKeys) {
		assert.Empty(t, meantBy("a manifest", name), "a key has one answer")
	}
}

// TestEveryLimitIsFoundOutsideOfLimits, in manifests and in ceilings.
func TestEveryLimitIsFoundOutsideOfLimits(t *testing.T) {
	for _, name := range limitsForm().names() {
		for what, parse := range map[string]func(string, []byte) error{
			"a manifest": func(name string, data []byte) error { _, err := Parse(name, data); return err },
			"a ceiling":  func(name string, data []byte) error { _, err := ParseCeiling(name, data); return err },
		} {
			assert.EqualError(t, parse("m", []byte(name+": 5\n")), "m:1:1: "+name+": "+what+" has no such key (did you mean limits."+name+"?)")
		}
	}
}

// TestAListOfKeysIsGivenOnce, not with each key that is unknown.
func TestAListOfKeysIsGivenOnce(t *testing.T) {
	_, err := Parse("m", []byte("colour: 1\ntaste: 2\nlimits: {smell: 3}\n"))
	lines := strings.Split(err.Error(), "\n")
	assert.Len(t, lines, 3)
	assert.Equal(t, []int{0, 2}, indexes(lines, "(known are "), "one list for the manifest, one for limits")
}

func indexes(lines []string, has string) (found []int) {
	for i, line := range lines {
		if strings.Contains(line, has) {
			found = append(found, i)
		}
	}
	return slices.Clip(found)
}
