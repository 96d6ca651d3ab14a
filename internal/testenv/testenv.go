// Package testenv holds what tests of several packages share: the test tiers, waiting, isolation from the machine, and programs to start.
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }
//
//	for range testenv.Times(1000) { ... }
//	testenv.Eventually(t, func() bool { return ended(pid) }, "the command ends")
//
// Only tests import it. It does not protect the machine from a test that runs as root and means harm: a test can leave the namespaces that
// [Main] makes.
package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Dir names the environment variable with the directory in which [MakeDir] makes others. The test runner sets it, and removes what tests that
// were interrupted leave there.
const Dir = "NSRUN_TEST_DIR"

// MakeDir makes a directory that every user can enter. Its name begins with prefix; the caller removes it. Outside of [Dir] MakeDir avoids
// /tmp where it can: a sandbox has a /tmp of its own, which would hide the test's files whether or not the sandbox works, and some tests
// mount over it.
func MakeDir(prefix string) (dir string, err error) {
	parents := []string{"/srv", "/home", os.Getenv("HOME"), ""}
	if parent := os.Getenv(Dir); parent != "" {
		parents = []string{parent}
	}
	for _, parent := range parents {
		if dir, err = os.MkdirTemp(parent, prefix); err == nil {
			return dir, os.Chmod(dir, 0o755)
		}
	}
	return "", err
}

// Built names the environment variable with a directory of programs that are already built, for machines without Go and for test runs that
// build each program once. A program's path there is its package's directory in the module, such as "cmd/nsrun".
const Built = "NSRUN_TEST_BUILT"

// Build builds a static program of this module as a file that every user can run, or copies it from the directory in [Built]. It makes the
// file's directory.
func Build(out, pkg string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if dir := os.Getenv(Built); dir != "" {
		return copyBuilt(out, dir, pkg)
	}
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return os.Chmod(out, 0o755)
}

func copyBuilt(out, dir, pkg string) error {
	root, err := module()
	if err != nil {
		return err
	}
	at, err := filepath.Abs(pkg)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, at)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, rel))
	if err != nil {
		return fmt.Errorf("%s has no program of %s: %w", Built, rel, err)
	}
	if err := os.WriteFile(out, data, 0o755); err != nil {
		return err
	}
	return os.Chmod(out, 0o755)
}

// module returns the directory of go.mod.
func module() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("not in a module")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// CutResult finds the line that --result FD:1 made nsrun print, decodes it into result, and returns the other text. found is false if there
// is no such line.
func CutResult(text string, result any) (rest string, found bool, err error) {
	i := strings.Index(text, `{"version"`)
	if i < 0 {
		return text, false, nil
	}
	line, after, _ := strings.Cut(text[i:], "\n")
	return text[:i] + after, true, json.Unmarshal([]byte(line), result)
}
