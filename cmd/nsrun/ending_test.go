package main

import (
	"testing"
	"time"

	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
)

// TestWhereATimeComesFrom: the line about a time that is up says who has chosen it.
func TestWhereATimeComesFrom(t *testing.T) {
	after := func(d time.Duration) policy.Policy { return policy.Policy{Timeout: d} }
	for want, f := range map[string]flags{
		", the default for manifests; raise it": {manifest: "m.json", asked: after(manifest.DefaultTimeout)},
		", as m.json says; raise it":            {manifest: "m.json", asked: after(time.Second)},
		", as the flag says; raise it":          {manifest: "m.json", asked: after(manifest.DefaultTimeout), timeoutGiven: true},
		", the default; raise it":               {},
	} {
		assert.Contains(t, f.from("timeout", false), want)
		assert.Contains(t, f.from("timeout", true), "the operator's ceiling", want)
	}
}
