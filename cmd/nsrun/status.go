package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun"
)

// engineStatus is one engine in status --json.
type engineStatus struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Auto      bool   `json:"auto,omitempty"` // what --backend auto is
	Path      string `json:"path,omitempty"`
	Version   string `json:"version,omitempty"`
	Why       string `json:"why,omitempty"` // it is not available
}

func (a *app) status(args []string) int {
	fs := newFlags("status")
	asJSON := fs.Bool("json", false, "")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	if fs.NArg() > 0 {
		return a.fail(fmt.Errorf("status takes no arguments, got %q", fs.Arg(0)))
	}
	engines := []engineStatus{{Name: "native", Available: true, Auto: true, Version: version}, bwrapStatus()}
	if *asJSON {
		data, err := json.MarshalIndent(map[string]any{"engines": engines}, "", "  ")
		if err != nil {
			return a.fail(err)
		}
		return a.print(string(data) + "\n")
	}
	var out strings.Builder
	for _, e := range engines {
		words := []string{e.Version, e.Path, e.Why}
		if e.Auto {
			words = append(words, "(auto)")
		}
		fmt.Fprintf(&out, "%-8s %s\n", e.Name, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	}
	return a.print(out.String())
}

// bwrapStatus looks for a real bubblewrap and asks it for its version.
func bwrapStatus() engineStatus {
	s := engineStatus{Name: "bwrap"}
	path, err := nsrun.FindBwrap()
	if err != nil {
		s.Why = err.Error()
		return s
	}
	s.Path = path
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		s.Why = fmt.Sprintf("%s --version: %v", path, err)
		return s
	}
	s.Available, s.Version = true, strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap ")
	return s
}

// lastMile is not for people: it is what this binary does inside of a bubblewrap.
func (a *app) lastMile(args []string) int {
	var fds []int
	for _, word := range args {
		if n, err := strconv.Atoi(word); err == nil && n > 2 {
			fds = append(fds, n)
		}
	}
	if len(fds) != 3 {
		return a.fail(errors.New("last-mile is for nsrun itself"))
	}
	if err := nsrun.LastMile(fds[0], fds[1], fds[2]); err != nil {
		return a.fail(err)
	}
	return nsrun.CodeFailed
}
