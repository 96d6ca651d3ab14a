// Package room makes the directory that the tests below e2e work in.
//
//	dir, err := room.Make("nsrun-e2e-")
//
// It protects nothing: the directory is for every user to look into.
package room

import "os"

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
