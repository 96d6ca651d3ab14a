package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// appendTo appends a program to a copy of nsrun, as scripts/release.sh does, with a mark that leads to an offset, and returns the copy, which lies in a
// directory of its own.
func appendTo(t *testing.T, nsrun string, program []byte, mark func(at int) string) string {
	t.Helper()
	const page = 1 << 16
	text, err := os.ReadFile(nsrun)
	require.NoError(t, err)
	text = append(text, make([]byte, (page-len(text)%page)%page)...)
	at := len(text)
	dir, err := os.MkdirTemp(filepath.Dir(nsrun), "joined-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	joined := filepath.Join(dir, "nsrun")
	require.NoError(t, os.WriteFile(joined, append(append(text, program...), mark(at)...), 0o755))
	return joined
}

func markAt(offset int) string {
	return fmt.Sprintf("%s%0*x\n", entry.AppendedMark, entry.AppendedDigits, offset)
}

// TestAnAppendedHelper: called by its name, it runs, from any nsrun. A damaged one does not, and the message says what is wrong with the file.
func TestAnAppendedHelper(t *testing.T) {
	nsrun := realBinary(t)
	damagedHelpers(t, nsrun)
	if os.Getenv(testenv.Built) == "" { // else the stage that builds a release runs it
		goodHelpers(t, nsrun)
	}
}

// goodHelpers serve the networks of a program that has no other one, whether that is position-independent or not.
func goodHelpers(t *testing.T, nsrun string) {
	needSandbox(t)
	helper, pie := filepath.Join(filepath.Dir(nsrun), "helper"), filepath.Join(filepath.Dir(nsrun), "pie")
	for _, args := range [][]string{{"-ldflags=-s -w -T 0x20001000", "-o", helper, "../nsrun-helper"}, {"-buildmode=pie", "-o", pie, "."}} {
		cmd := exec.Command("go", append([]string{"build"}, args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	program, err := os.ReadFile(helper)
	require.NoError(t, err)
	for _, nsrun := range []string{nsrun, pie} {
		joined := appendTo(t, nsrun, program, markAt)
		stdout, stderr, code := called(joined, entry.AppendedName, "--version")
		assert.Equal(t, 0, code, stderr)
		assert.Contains(t, stdout, "nsrun-helper ")
		stdout, _, code = called(joined, "nsrun", "version")
		assert.Equal(t, 0, code)
		assert.Contains(t, stdout, "nsrun ")
		run := []string{"nsrun", "run", "--net", "allow:example.com", "--", "/bin/true"}
		_, stderr, code = called(joined, run...)
		assert.Equal(t, 0, code, stderr)
		_, stderr, code = called(nsrun, run...)
		assert.Equal(t, 125, code, "the control: without a helper")
		assert.Contains(t, stderr, "install nsrun-helper beside nsrun")
		_, stderr, code = called(appendTo(t, nsrun, nil, markAt), run...)
		assert.Equal(t, 125, code, "with a damaged one")
		assert.Contains(t, stderr, "the network helper in it is damaged", "in the helper's own words")
	}
}

func damagedHelpers(t *testing.T, nsrun string) {
	self, err := os.ReadFile(nsrun)
	require.NoError(t, err)
	many := append([]byte(nil), self...)
	many[56] = 17 // e_phnum
	none := append([]byte(nil), self...)
	none[56] = 0
	for name, row := range map[string]struct {
		program []byte
		mark    func(at int) string
		want    string
	}{
		"none":              {nil, func(int) string { return "" }, "it has no network helper in it"},
		"no number":         {self, func(int) string { return entry.AppendedMark + "000000000000x000\n" }, "it has no network helper in it"},
		"behind the end":    {self, func(int) string { return markAt(1 << 40) }, "the network helper in it is damaged"},
		"no program":        {[]byte("#!/bin/sh\n"), markAt, "the network helper in it is damaged"},
		"no part":           {none, markAt, "the network helper in it is damaged"},
		"too many parts":    {many, markAt, "the network helper in it is damaged"},
		"at the same place": {self, markAt, "the network helper in it cannot be mapped"},
	} {
		stdout, stderr, code := called(appendTo(t, nsrun, row.program, row.mark), entry.AppendedName, "--version")
		assert.Equal(t, 125, code, name)
		assert.Empty(t, stdout, name)
		assert.Contains(t, stderr, "nsrun-helper: nsrun was called by this name, and "+row.want, name)
	}
}
