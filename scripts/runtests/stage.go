package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// tier says from which tier on a stage runs.
type tier int

const (
	quick tier = iota
	fast
	all
)

func (t tier) String() string { return [...]string{"quick", "fast", "all"}[t] }

// stage is one check, or one package's tests as one user.
type stage struct {
	name     string
	tier     tier
	slice    int      // of CI, for stages of the tier all
	seconds  int      // that it takes on two processors; the longest stages start first
	packages []string // of Debian that it needs
	inputs   inputs
	covers   string // the stage of the fast tier that this one makes superfluous in a run of everything
	run      func(ctx context.Context, log io.Writer) (tally, error)
}

// tally is what a stage counted.
type tally struct {
	passed, failed, skipped int
	lacking                 int            // of the skipped ones, those for which this host lacks something
	counts                  map[string]int // by what was counted, such as "attack cases"
}

func (t *tally) add(o tally) {
	t.passed, t.failed, t.skipped, t.lacking = t.passed+o.passed, t.failed+o.failed, t.skipped+o.skipped, t.lacking+o.lacking
	for what, n := range o.counts {
		if t.counts == nil {
			t.counts = map[string]int{}
		}
		t.counts[what] += n
	}
}

// outcome is how one stage ended.
type outcome struct {
	stage  stage
	tally  tally
	took   time.Duration
	err    error
	before bool // it passed on the same inputs earlier
}

// schedule runs stages, width of them at a time, in the order of the list. It starts no more stages when ctx has ended.
func schedule(ctx context.Context, stages []stage, width int, run func(stage) outcome, report *reporter) []outcome {
	var (
		mu   sync.Mutex
		done []outcome
		wg   sync.WaitGroup
	)
	slots := make(chan struct{}, width)
	for i, s := range stages {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		next := ""
		if i+1 < len(stages) {
			next = stages[i+1].name
		}
		report.started(s, next)
		wg.Go(func() {
			o := run(s)
			report.ended(o)
			mu.Lock()
			done = append(done, o)
			mu.Unlock()
			<-slots
		})
	}
	wg.Wait()
	return done
}

// reporter prints what happens, a line at a time.
type reporter struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
	all   int // stages
	ends  int // of stages
	next  string
}

func (r *reporter) started(s stage, next string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
	fmt.Fprintf(r.out, "%s start %s\n", r.clock(), s.name)
}

func (r *reporter) ended(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends++
	word := "ok   "
	if o.err != nil {
		word = "FAIL "
	} else if o.before {
		word = "had  "
	}
	fmt.Fprintf(r.out, "%s %s %s: %.1f s%s", r.clock(), word, o.stage.name, o.took.Seconds(), o.tally.text())
	if r.next != "" {
		fmt.Fprintf(r.out, "; next: %s", r.next)
	}
	fmt.Fprintf(r.out, " (%d of %d)\n", r.ends, r.all)
	if o.err != nil {
		fmt.Fprintln(r.out, o.err)
	}
}

func (r *reporter) clock() string {
	d := time.Since(r.begin)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func (t tally) text() string {
	if t.passed+t.skipped+t.failed == 0 {
		return ""
	}
	text := fmt.Sprintf(", %d passed", t.passed)
	if t.failed > 0 {
		text += fmt.Sprintf(", %d failed", t.failed)
	}
	if t.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", t.skipped)
	}
	return text
}
