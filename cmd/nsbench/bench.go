package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// bench is one run of nsbench.
type bench struct {
	options
	out     io.Writer
	report  report
	dir     string // of its own: copies of the programs, and what sandboxes show
	null    *os.File
	env     []string
	covers  []string  // see readCovers
	bwrap   string    // the copy of nsrun under the name bwrap
	theirs  []program // bubblewraps
	nothing string    // a static program that does nothing
	group   string    // which is being measured
}

// newBench copies the programs and looks at the machine.
func newBench(o options, out io.Writer) (*bench, error) {
	b := &bench{options: o, out: out, env: os.Environ(), report: report{Rounds: o.rounds, Workers: o.workers, LeftOut: []exception{}}}
	var err error
	if b.report.Machine, err = thisMachine(o.realtime); err != nil {
		return nil, err
	}
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("/var/tmp", "nsbench-"); err != nil { // /tmp is covered in sandboxes
		return nil, err
	}
	if err := b.copyPrograms(); err != nil {
		b.close()
		return nil, err
	}
	if b.covers, err = b.readCovers(); err != nil && !slices.Equal(o.only, []string{"version"}) { // which alone needs no sandbox
		b.close()
		return nil, err
	}
	b.report.Machine.print(out)
	for _, p := range b.report.Programs {
		fmt.Fprintf(out, "%s: %s, %s\n", p.Name, p.Version, p.Path)
	}
	return b, nil
}

func (b *bench) close() {
	b.null.Close()
	os.RemoveAll(b.dir)
}

// helperName is the program that serves networks with an allow-list. It lies beside nsrun.
const helperName = "nsrun-helper"

func (b *bench) copyPrograms() (err error) {
	ours, err := b.copyProgram(b.options.nsrun, "nsrun", "version")
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; build it first: go build -o bin/nsrun ./cmd/nsrun", err)
	}
	if err != nil {
		return err
	}
	ours.Name, b.nsrun, b.bwrap = "nsrun", ours.copied, filepath.Join(b.dir, "bwrap")
	b.report.Programs = append(b.report.Programs, ours)
	if err := os.Symlink(b.nsrun, b.bwrap); err != nil {
		return err
	}
	helper := filepath.Join(filepath.Dir(ours.Path), helperName)
	if err := copyFile(helper, filepath.Join(b.dir, helperName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	against := b.against
	if path, err := exec.LookPath("bwrap"); err == nil && len(against) == 0 {
		against = []string{path}
	}
	for i, path := range against {
		p, err := b.copyProgram(path, fmt.Sprintf("against%d/bwrap", i), "--version")
		if err != nil {
			return err
		}
		p.Name = p.Version
		if slices.ContainsFunc(b.theirs, func(other program) bool { return other.Name == p.Name }) {
			p.Name += " of " + path
		}
		b.theirs = append(b.theirs, p)
	}
	b.report.Programs = append(b.report.Programs, b.theirs...)
	if len(b.theirs) == 0 {
		b.leaveOut("all cases", "bubblewrap", "there is none on PATH; install it, or name one with --against")
	}
	if b.program != "" {
		b.nothing, err = filepath.Abs(b.program)
		return err
	}
	b.nothing = filepath.Join(b.dir, "static", "nothing") // sandboxes show its directory: nothing else is there
	return writeNothing(b.nothing)
}

// copyProgram copies a program into the directory, and asks the copy for its version. The copy of a setuid program is not setuid.
func (b *bench) copyProgram(path, name, version string) (program, error) {
	p := program{copied: filepath.Join(b.dir, name)}
	var err error
	if p.Path, err = filepath.Abs(path); err != nil {
		return p, err
	}
	if err := copyFile(p.Path, p.copied); err != nil {
		return p, err
	}
	out, err := exec.Command(p.copied, version).Output()
	if err != nil {
		return p, fmt.Errorf("%s %s: %w", p.Path, version, err)
	}
	p.Version = strings.TrimSpace(string(out))
	return p, nil
}

// copyFile writes the copy by one write(2): the file system then takes large folios for it, as for an installed file.
func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// measureGroups measures the groups that were asked for, in the order of their table.
func (b *bench) measureGroups() error {
	for _, g := range groups {
		if len(b.only) > 0 && !slices.Contains(b.only, g.name) {
			continue
		}
		b.group = g.name
		if err := g.run(b); err != nil {
			return err
		}
	}
	return nil
}
