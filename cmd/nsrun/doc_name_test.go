package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/manifest"
)

// elsewhere are the flags of other programs in README.md and doc: the programs that have them.
var elsewhere = map[string]string{
	"--security-opt": "docker", "--rm": "docker", "--user": "docker, systemd-run", "--scope": "systemd-run", "--update-kernel": "grubby", "--args": "grubby",
	"--config-file": "mypy", "--version": "rules of commands", "--no-ext-diff": "git", "--no-textconv": "git", "--plot": "nsbench",
	"--volume": "docker", "--workdir": "docker", "--memory": "docker", "--cpus": "docker", "--pids-limit": "docker", "--network": "docker",
	"--read-only": "docker", "--private": "firejail", "--no-sandbox": "chromium", "--offline": "maven", "--worksapce": "misspelt",
}

// TestDocNamesFlagsAndVerbs looks for each flag and verb that README.md and doc name in the help of nsrun, or of bwrap.
func TestDocNamesFlagsAndVerbs(t *testing.T) {
	flag, verb := regexp.MustCompile(`(?:^|[^\w-])(--[a-z][a-z0-9-]*)`), regexp.MustCompile("[`$|] ?nsrun ([a-z-]+)")
	span := regexp.MustCompile("(?m)`[^`\n]+`|^\\$ .*$")
	_, err := bwrap.Parse([]string{"--help"}, bwrap.Caller{}, facts.Facts{})
	var usage *bwrap.Exit
	require.ErrorAs(t, err, &usage)
	known := usage.Stdout + strings.Join(slices.Collect(maps.Values(helpTexts())), "\n")
	used, verbs := map[string]bool{}, 0
	for page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, words := range span.FindAllString(string(text), -1) {
			for _, m := range flag.FindAllStringSubmatch(words, -1) {
				if _, ok := elsewhere[m[1]]; ok {
					used[m[1]] = true
					continue
				}
				assert.True(t, regexp.MustCompile(m[1]+`([^\w-]|$)`).MatchString(known), "%s names %s, which no help has", page, m[1])
			}
			for _, m := range verb.FindAllStringSubmatch(words, -1) {
				verbs++
				_, ok := helpTexts()[m[1]]
				assert.True(t, ok, "%s names nsrun %s, which no help has", page, m[1])
			}
		}
	}
	assert.Greater(t, verbs, 40, "verbs are found")
	assert.Len(t, used, len(elsewhere), "each flag of another program is on some page: %v", used)
}

// TestDocManifestsAreRead reads the manifests and the ceiling that doc shows.
func TestDocManifestsAreRead(t *testing.T) {
	for page, want := range map[string]int{"manifest.md": 2, "commands.md": 1} {
		text, err := os.ReadFile("../../doc/" + page)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)\n```(yaml|json)\n(.*?)\n```").FindAllStringSubmatch(string(text), -1)
		require.Len(t, blocks, want, page)
		for _, b := range blocks {
			if b[1] == "yaml" {
				_, err = manifest.Parse("manifest.yaml", []byte(b[2]))
			} else {
				_, err = manifest.ParseCeiling("ceiling.json", []byte(b[2]))
			}
			assert.NoError(t, err, page)
		}
	}
}
