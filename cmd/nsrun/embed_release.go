//go:build release

package main

import (
	_ "embed"

	"github.com/nsrun/nsrun/internal/runner"
)

// helper is the program nsrun-helper, of the same version: scripts/release.sh puts it here.
//
//go:embed nsrun-helper
var helper string

func init() { runner.EmbedHelper(helper) }
