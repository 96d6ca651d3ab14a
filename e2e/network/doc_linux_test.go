package network

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times is how often something was tried: a resolver asks for one name once or twice.
var times = regexp.MustCompile(` \(\d+ times\)`)

// TestDocRegistry runs what doc/network.md shows: npm installs from one registry, and a dozen ways out fail, which nsrun reports in these words.
func TestDocRegistry(t *testing.T) {
	page, err := os.ReadFile("../../doc/network.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## One registry, and nothing else\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	_, rest, _ := strings.Cut(section, "$ cat agent.sh\n")
	agent, shown, ok := strings.Cut(rest, "$ nsrun run --workspace . --net allow:npm.test -- sh agent.sh\n")
	require.True(t, ok)
	shown, _, _ = strings.Cut(shown, "```")
	first, refused, _ := strings.Cut(shown, "\n")
	require.GreaterOrEqual(t, strings.Count(agent, "\ncurl ")+strings.Count(agent, "\ngetent ")+strings.Count(agent, "\ndig "), 12)
	eachUser(t, func(t *testing.T, w *world) {
		require.NoError(t, os.WriteFile(filepath.Join(w.work, "agent.sh"), []byte(agent), 0o644))
		ca := filepath.Join(shared(), "ca.pem")
		forget()
		got := w.run(t, append(allow("npm.test"), "--setenv", "npm_config_cafile="+ca, "--setenv", "CURL_CA_BUNDLE="+ca), "sh agent.sh")
		assert.Equal(t, 1, got.Code, got.out)
		assert.Contains(t, got.out, strings.TrimSuffix(first, "..."))
		_, lines, _ := strings.Cut(got.out, "\nnsrun: refused: ")
		assert.Equal(t, times.ReplaceAllString(refused, ""), times.ReplaceAllString("nsrun: refused: "+lines, ""))
		onlyWentTo(t, got, "npm.test")
	})
}
