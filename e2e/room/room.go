// Package room makes the directory that the tests below e2e work in.
//
//	dir, err := room.Make("nsrun-e2e-")
//	err = room.Build(dir+"/bin/nsrun", "../cmd/nsrun")
//
// It protects nothing: the directory is for every user to look into.
package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Make makes a directory that every user can enter, of a name that begins with prefix; the caller removes it. It is not in /tmp if there is
// another place: sandboxes have a /tmp of their own, which alone would hide what is planted, and some tests mount over it.
func Make(prefix string) (dir string, err error) {
	for _, parent := range []string{"/srv", "/home", os.Getenv("HOME"), ""} {
		if dir, err = os.MkdirTemp(parent, prefix); err == nil {
			return dir, os.Chmod(dir, 0o755)
		}
	}
	return "", err
}

// Built is the variable that names a directory with programs that were built before, for machines without Go. Each is named for its
// package's directory in the module, "cmd/nsrun".
const Built = "NSRUN_TEST_BUILT"

// Build builds a program of this module, static, as a file that every user can run. Its directory is made if it is not there.
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

// module is the directory of go.mod.
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

// Slow is the variable that says how many times slower than hardware this machine is.
const Slow = "NSRUN_TEST_SLOW"

// Times is how often to do on this machine what is done n times on hardware, to meet a rare moment: ten times at least.
func Times(n int) int {
	if factor, err := strconv.Atoi(os.Getenv(Slow)); err == nil && factor > 1 {
		return max(n/factor, min(n, 10))
	}
	return n
}

// Patience is how long to wait on this machine for what takes d on hardware.
func Patience(d time.Duration) time.Duration {
	if factor, err := strconv.Atoi(os.Getenv(Slow)); err == nil && factor > 1 {
		return d * time.Duration(factor)
	}
	return d
}

// CutResult finds the line that nsrun's --result FD:1 wrote among what it printed, reads it into result, and returns the rest. Without such
// a line found is false.
func CutResult(text string, result any) (rest string, found bool, err error) {
	i := strings.Index(text, `{"version"`)
	if i < 0 {
		return text, false, nil
	}
	line, after, _ := strings.Cut(text[i:], "\n")
	return text[:i] + after, true, json.Unmarshal([]byte(line), result)
}

// Settled is a count of what comes to a server, once what is under way has been counted.
func Settled(count *atomic.Int64) int64 {
	for {
		n := count.Load()
		time.Sleep(Patience(2 * time.Millisecond))
		if n == count.Load() {
			return n
		}
	}
}

// Landlock is the ABI of the kernel's, or 0: what nsrun itself says of it is under test.
func Landlock() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// WithoutLandlock are the flags by which nsrun runs a policy on a kernel that has none, and that is what the caller wants.
func WithoutLandlock() []string {
	if Landlock() > 0 {
		return nil
	}
	return []string{"--no-landlock"}
}
