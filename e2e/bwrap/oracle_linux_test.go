package bwrap_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// oracle is one bubblewrap.
type oracle struct {
	name string // its version, "0.13.1"
	path string
}

// findOracles puts the newest one first.
func findOracles() error {
	var found []oracle
	dir, err := newerOracles()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/bwrap: only the machine's own bubblewrap:", err)
		if os.Getenv("CI") != "" {
			return err
		}
	} else {
		found = append(found, oracle{path: filepath.Join(dir, "sid", "bwrap")}, oracle{path: filepath.Join(dir, "trixie", "bwrap")})
	}
	if path, err := exec.LookPath("bwrap"); err == nil {
		found = append(found, oracle{path: path})
	} else if err := lacks("bubblewrap: " + err.Error()); err != nil {
		return err
	}
	for i := range found {
		if err := found[i].adopt(i); err != nil {
			return err
		}
	}
	built.oracles = found
	return nil
}

// adopt asks for the version and gives the oracle the name bwrap in the room.
func (o *oracle) adopt(i int) error {
	out, err := exec.Command(o.path, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", o.path, err)
	}
	o.name = strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap ")
	dir := filepath.Join(built.room, fmt.Sprint("oracle", i))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	target := o.path
	o.path = filepath.Join(dir, "bwrap")
	return os.Symlink(target, o.path)
}

// newerOracles returns where they are, after fetching them if need be.
func newerOracles() (string, error) {
	dir := os.Getenv("NSRUN_ORACLES")
	if dir == "" && os.Getuid() == 0 { // root's own cache is closed to the user that the cases run as, too
		dir = "/var/cache/nsrun-oracles"
	}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "nsrun-oracles")
	}
	cmd := exec.Command("../../scripts/oracles.sh", dir)
	var text bytes.Buffer
	cmd.Stderr = &text
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("oracles.sh: %w: %s", err, lastLines(text.String(), 3))
	}
	return strings.TrimSpace(string(out)), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
