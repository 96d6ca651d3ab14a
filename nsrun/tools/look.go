package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// State is whether a preset adds a place on this host.
type State string

// The states of places.
const (
	Shown   State = "shown"
	Empty   State = "empty"    // an empty directory is made
	Absent  State = "absent"   // the host does not have it
	LeftOut State = "left-out" // the host has it, and it cannot be shown
	// Depends is for what no look at the host decides: the workspace does.
	Depends State = "depends"
)

// PlaceHere is what this host has at a place of a preset.
type PlaceHere struct {
	Path  string `json:"path,omitempty"` // the host's path, if any alternative names one here
	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // why it is not shown
}

// OnHost is what a preset adds on one host, in the default policy.
type OnHost struct {
	Places []PlaceHere `json:"places,omitempty"` // in the order of the row
	Pass   []string    `json:"pass,omitempty"`   // variables that are set
}

// Look returns what a preset adds on this host: in the default policy, as a run that grants one of the places itself does not get it from the preset. It looks
// at the places and opens none, so a file that is there and cannot be read is reported as shown.
func Look(t Tool, h Host) OnHost {
	var here OnHost
	for _, place := range t.Places {
		here.Places = append(here.Places, look(t, place, h))
	}
	for _, name := range t.Pass {
		if _, set := h.Lookup(name); set {
			here.Pass = append(here.Pass, name)
		}
	}
	return here
}

func look(t Tool, place Place, h Host) PlaceHere {
	if place.Kind == Repository {
		return PlaceHere{State: Depends, Why: "on the workspace: nsrun plan --tool " + t.Name + " has it"}
	}
	source, _ := h.path(place)
	found := PlaceHere{Path: source, State: Shown}
	leave := func(state State, why string) PlaceHere {
		found.State, found.Why = state, why
		return found
	}
	if source == "" {
		return leave(Absent, "there is no "+strings.ReplaceAll(place.Path, "|", ", nor "))
	}
	switch place.Kind {
	case Private:
		return leave(Empty, "")
	case Settings:
		if !isThere(source) && !isThere(h.gitConfig()) {
			return leave(Absent, "")
		}
		return found
	case Copy:
		if info, err := os.Stat(source); err == nil && (!info.Mode().IsRegular() || info.Size() > mostCopied) {
			return leave(LeftOut, fmt.Sprintf("%s is no file of at most 1 MiB", source))
		}
		place.Kind = Read // is added on the same conditions, without being opened
	}
	p := policy.Default(h.Home)
	a := adder{Policy: p, asked: p, host: h, tool: t}
	a.place(place)
	real, err := h.Real(source)
	if err == nil {
		_, err = os.Lstat(real)
	}
	switch {
	case len(a.Notes) > len(p.Notes):
		return leave(LeftOut, strings.TrimPrefix(a.Notes[len(p.Notes)].Loss, t.Name+": "))
	case errors.Is(err, fs.ErrNotExist):
		return leave(Absent, "")
	}
	return found // by the preset, or by the default policy
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// gitConfig is where git looks for a user's settings besides ~/.gitconfig.
func (h Host) gitConfig() string {
	if config, _ := h.Lookup("XDG_CONFIG_HOME"); filepath.IsAbs(config) {
		return filepath.Join(config, "git/config")
	}
	if h.Home == "" {
		return ""
	}
	return filepath.Join(h.Home, ".config/git/config")
}
