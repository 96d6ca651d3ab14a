package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// runsPerWorker is how many runs each worker has on average in one measurement.
const runsPerWorker = 25

// throughput measures runs per second with several workers at a time.
func (b *bench) throughput() error {
	for _, c := range []struct {
		title string
		all   []*contender
	}{
		{"as bwrap, minimal sandbox", contenders(b.minimal(), "true")},
		{"run", contenders(b.layered(nil), "/bin/true")},
	} {
		for _, p := range c.all {
			if err := b.try(p); err != nil {
				return fmt.Errorf("throughput: %s: %w", p.name, err)
			}
			argv := p.argv
			p.argv, p.measure = nil, func() (sample, error) { return b.rate(argv) }
		}
		title := fmt.Sprintf("%s: %d at a time", c.title, b.workers)
		if err := b.hold(contest{title: title, unit: unitRate, rounds: b.share(20), contenders: c.all}); err != nil {
			return err
		}
	}
	return nil
}

// rate runs a program by all workers, and returns the runs per second and what one run took of the machine.
func (b *bench) rate(argv []string) (sum sample, err error) {
	runs := int64(b.workers * runsPerWorker)
	var left atomic.Int64
	left.Store(runs)
	var mu sync.Mutex
	var workers sync.WaitGroup
	began := time.Now()
	for range b.workers {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				s, fault := b.start(argv, "")
				mu.Lock()
				sum.CPU, sum.Faults, sum.Switches = sum.CPU+s.CPU, sum.Faults+s.Faults, sum.Switches+s.Switches
				if fault != nil {
					err = fault
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	n := float64(runs)
	return sample{n / time.Since(began).Seconds(), usage{sum.CPU / n, sum.Faults / n, sum.Switches / n}}, err
}
