package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestWhoAskedForATime: only where somebody has, a run says without -v that a ceiling cuts it. What base gives with --tty has no timeout.
func TestWhoAskedForATime(t *testing.T) {
	for name, c := range map[string]struct {
		f    flags
		want bool
	}{
		"nobody":                  {flags{}, false},
		"a flag":                  {flags{timeoutGiven: true}, true},
		"a terminal":              {flags{tty: true}, true},
		"a manifest":              {flags{manifest: writeManifest(t, `{"limits": {"timeout": "1m"}}`)}, true},
		"a manifest without time": {flags{manifest: writeManifest(t, `{}`)}, false},
	} {
		pol, err := c.f.base()
		require.NoError(t, err, name)
		c.f.asked = pol
		assert.Equal(t, c.want, c.f.timeAsked(), name)
	}
}

func writeManifest(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "m.json")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}
