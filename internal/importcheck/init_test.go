package importcheck

import (
	"debug/elf"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// initialised are the packages of this module that run code whenever nsrun starts, before main, and why. Each costs a start some microseconds, for
// pages of the program that may not be needed otherwise. A map, or a list that is put together, is made when it is asked for instead.
var initialised = map[string]string{
	"internal/backend":   "errors by the names of package fault",
	"internal/runner":    "errors by the names of package backend",
	"internal/sys/entry": "what this process was started with",
	"nsrun":              "errors by the names of packages below",
}

func TestNothingElseRunsAtTheStart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nsrun")
	require.NoError(t, testenv.Build(program, "../../cmd/nsrun"))
	file, err := elf.Open(program)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, s := range symbols {
		name, is := strings.CutSuffix(s.Name, "..inittask")
		if name, ours := strings.CutPrefix(name, module); is && ours {
			found[name] = true
			assert.Contains(t, initialised, name, "it runs code whenever nsrun starts: see GODEBUG=inittrace=1")
		}
	}
	for name := range initialised {
		assert.True(t, found[name], "%s runs none any more: take it from the list", name)
	}
}
