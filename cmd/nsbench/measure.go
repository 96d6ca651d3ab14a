package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sample is one measurement of a contender.
type sample struct {
	value float64 // in the contest's unit
	usage         // zero where nothing was waited for
}

// usage is what a process and all that it has waited for took, as wait4(2) reports it.
type usage struct {
	CPU      float64 `json:"cpu_ms"` // user and system time
	Faults   float64 `json:"page_faults"`
	Switches float64 `json:"context_switches"`
}

// contender is one way to do what a contest measures: a program that runs, or a function.
type contender struct {
	name     string
	argv     []string
	input    string                 // a file for the program's standard input; empty is /dev/null
	measure  func() (sample, error) // instead of argv
	settle   func()                 // called after each measurement
	base     bool                   // the others' ratios to it are reported
	plotted  bool                   // plots show its ratios to bubblewraps
	optional bool                   // it is left out if it fails when it is tried

	samples []sample
}

// Units of contests.
const (
	unitTime = "ms"
	unitRate = "runs/s" // more is better
	unitSize = "KiB"
)

// contest is a case: contenders that are measured in turn.
type contest struct {
	title      string
	unit       string // empty is unitTime
	rounds     int
	contenders []*contender
}

// hold measures the contenders, reports what they took, and adds it to the results.
func (b *bench) hold(c contest) error {
	if c.unit == "" {
		c.unit = unitTime
	}
	var ready []*contender
	for _, p := range c.contenders {
		err := b.try(p)
		if err != nil && !p.optional {
			return fmt.Errorf("%s: %s: %w", c.title, p.name, err)
		}
		if err != nil {
			b.leaveOut(c.title, p.name, err.Error())
			continue
		}
		ready = append(ready, p)
	}
	if len(ready) == 0 {
		return nil
	}
	c.contenders = ready
	for range c.rounds {
		for _, i := range rand.Perm(len(ready)) {
			if err := b.sample(ready[i]); err != nil {
				return fmt.Errorf("%s: %s: %w", c.title, ready[i].name, err)
			}
		}
	}
	result := c.result(b.group)
	b.report.Cases = append(b.report.Cases, result)
	result.print(b.out)
	return nil
}

// try lets the contender run once, without measuring it. Its error has the program's last line.
func (b *bench) try(p *contender) error {
	if p.measure != nil {
		_, err := p.measure()
		if p.settle != nil {
			p.settle()
		}
		return err
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir = runDir
	if p.input != "" {
		f, err := os.Open(p.input)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(out))
	}
	return nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

func (b *bench) sample(p *contender) error {
	measure := p.measure
	if measure == nil {
		measure = func() (sample, error) { return b.start(p.argv, p.input) }
	}
	s, err := measure()
	if p.settle != nil {
		p.settle()
	}
	p.samples = append(p.samples, s)
	return err
}

// runDir is where programs start: a directory that every sandbox shows.
const runDir = "/usr"

// start measures a program from its fork until it has been waited for.
func (b *bench) start(argv []string, input string) (sample, error) {
	in := b.null
	if input != "" {
		f, err := os.Open(input)
		if err != nil {
			return sample{}, err
		}
		defer f.Close()
		in = f
	}
	null := b.null.Fd()
	attr := &syscall.ProcAttr{Dir: runDir, Env: b.env, Files: []uintptr{in.Fd(), null, null}}
	var status syscall.WaitStatus
	var took syscall.Rusage
	began := time.Now()
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err != nil {
		return sample{}, err
	}
	for {
		if _, err = syscall.Wait4(pid, &status, 0, &took); err != syscall.EINTR {
			break
		}
	}
	value := ms(time.Since(began))
	if err == nil && status != 0 {
		err = fmt.Errorf("it worked before, and now ends with exit code %d, signal %d", status.ExitStatus(), status.Signal())
	}
	return sample{value, usageOf(&took)}, err
}

func usageOf(r *syscall.Rusage) usage {
	return usage{ms(time.Duration(r.Utime.Nano() + r.Stime.Nano())), float64(r.Minflt + r.Majflt), float64(r.Nvcsw + r.Nivcsw)}
}

// timed measures how long a function takes.
func timed(do func() error) func() (sample, error) {
	return func() (sample, error) {
		began := time.Now()
		err := do()
		return sample{value: ms(time.Since(began))}, err
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// quantile returns the value below which the part q of the sorted values lies. Between two values it interpolates.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// median returns the median of a part of each sample.
func median(samples []sample, part func(sample) float64) float64 {
	return quantile(sortedParts(samples, part), 0.5)
}

func sortedParts(samples []sample, part func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = part(s)
	}
	slices.Sort(values)
	return values
}
