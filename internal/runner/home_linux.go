package runner

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Home is HOME if that can be a home directory, else what the account file says if that can, else empty. It is what policies take for the home
// directory. A note says why it is not HOME.
func Home() (home string, notes []policy.Note) {
	home = clean(os.Getenv("HOME"))
	why := notHome(home)
	if why == "" {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || notHome(clean(u.HomeDir)) != "" {
		return "", nil // policy.Default has a note for that
	}
	if home != "" {
		notes = []policy.Note{{Feature: "HOME", Loss: fmt.Sprintf("%q cannot be the home directory: %s; it is %s, as the account says", home, why, u.HomeDir),
			Fix: "set HOME to a directory of yours"}}
	}
	return clean(u.HomeDir), notes
}

func clean(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Clean(dir)
}

// notHome says why a path cannot be that of the home directory, or nothing. What is not there is made in the sandbox.
func notHome(home string) string {
	if why := policy.HomePlace(home); why != "" {
		return why
	}
	if info, err := os.Stat(home); err == nil && !info.IsDir() {
		return "it is a file"
	}
	return ""
}

// DefaultPolicy is [policy.Default] for this process's user.
func DefaultPolicy() policy.Policy {
	home, notes := Home()
	p := policy.Default(home)
	p.Notes = append(notes, p.Notes...)
	return p
}
