// Package room makes the directory that the tests below e2e work in.
//
//	dir, err := room.Make("nsrun-e2e-")
//	err = room.Build(dir+"/bin/nsrun", "../cmd/nsrun")
//
// It protects nothing: the directory is for every user to look into.
package room

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Build builds a program of this module, static, as a file that every user can run. Its directory is made if it is not there.
func Build(out, pkg string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return os.Chmod(out, 0o755)
}
