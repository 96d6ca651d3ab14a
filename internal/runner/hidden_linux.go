package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// HiddenProgram looks on the host for the program of a plan that was not found in the view: in the directories of the caller's PATH that are not
// shown, or at the path that was given. at is where it lies; grant names what --ro has to show, which can be two directories with a second --ro
// between them, as a program is often a link into another one. Both are empty if the host has no such program.
func HiddenProgram(p *plan.Plan, environ []string) (at, grant string) {
	name := p.Command[0]
	places := []string{name}
	if !strings.Contains(name, "/") {
		places = nil
		for _, dir := range p.HiddenPath(environ) {
			places = append(places, filepath.Join(dir, name))
		}
	}
	i := slices.IndexFunc(places, func(place string) bool {
		info, err := os.Stat(place)
		return filepath.IsAbs(place) && err == nil && info.Mode().IsRegular() && unix.Access(place, unix.X_OK) == nil
	})
	if i < 0 {
		return "", ""
	}
	home, _ := Home()
	at = places[i]
	grant = toGrant(at, home)
	if target, err := filepath.EvalSymlinks(at); err == nil && !policy.Inside(target, grant) && !p.Shows(target) {
		grant += " --ro " + toGrant(target, home)
	}
	return at, grant
}

// toGrant is the directory that a program needs: its own, or that above a bin, which holds its libraries. Not above the bin of a directory where
// other things lie, such as the home directory, or one with credentials.
func toGrant(program, home string) string {
	dir := filepath.Dir(program)
	above := filepath.Dir(dir)
	if base := filepath.Base(dir); base != "bin" && base != "sbin" {
		return dir
	}
	if slices.Contains([]string{"/", home, filepath.Join(home, ".local"), filepath.Join(home, ".cargo")}, above) || policy.Inside(home, above) {
		return dir
	}
	return above
}

// HiddenDirs are the directories of the caller's PATH that exist and that the command does not see, in words; empty if there are none.
func HiddenDirs(p *plan.Plan, environ []string) string {
	const named = 3
	var dirs []string
	for _, dir := range p.HiddenPath(environ) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	if more := len(dirs) - named; more > 0 {
		dirs = append(dirs[:named], fmt.Sprintf("%d more", more))
	}
	return strings.Join(dirs, ", ")
}
