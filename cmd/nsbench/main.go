// Command nsbench measures nsrun beside bubblewrap and the bare fork+exec: the time of a start, runs per second, idle memory, sessions and pools.
// The contenders of a case take turns, in another order each round. Only ratios within one run mean something; medians are noisy, minima steady.
//
// It copies each program that it measures. The pages of a freshly linked file are small in the page cache, since the linker writes by mmap(2),
// and a start of it takes 0.3 ms longer than one of its copy.
//
//	go build -o bin/nsrun ./cmd/nsrun && go run ./cmd/nsbench
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/nsrun"
)

// options are the flags.
type options struct {
	nsrun, program, json, plot string
	against                    []string // bubblewraps to compare with; empty: that of PATH
	only                       []string // names of groups; empty: all
	rounds, workers            int
	realtime                   bool
}

func main() {
	nsrun.Init()
	err := run(os.Args[1:], os.Stdout)
	nsrun.Shutdown()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nsbench:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	o, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err == nil && o.realtime {
		err = goRealtime()
	}
	if err != nil {
		return err
	}
	b, err := newBench(o, out)
	if err != nil {
		return err
	}
	defer b.close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stop)
	go func() {
		<-stop
		b.close()
		os.Exit(1)
	}()
	if err := b.measureGroups(); err != nil {
		return err
	}
	if o.json != "" {
		if err := writeJSON(o.json, &b.report); err != nil {
			return err
		}
	}
	if o.plot != "" {
		return os.WriteFile(o.plot, []byte(plot(&b.report)), 0o644)
	}
	return nil
}

// parse reads the flags. It prints the help, and returns [flag.ErrHelp], if they ask for it.
func parse(args []string, out io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("nsbench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.nsrun, "nsrun", "bin/nsrun", "nsrun binary, at `PATH`")
	fs.Func("against", "compare with the bubblewrap at `PATH` (repeat; default the bwrap that the variable PATH leads to)", func(path string) error {
		o.against = append(o.against, path)
		return nil
	})
	fs.IntVar(&o.rounds, "rounds", 200, "measure each contender `N` times, and less often where one run is long")
	fs.Func("only", "measure these `GROUPS`, several with commas", func(names string) error {
		o.only = append(o.only, strings.Split(names, ",")...)
		return nil
	})
	fs.IntVar(&o.workers, "workers", 2, "throughput: run `N` sandboxes at a time")
	fs.StringVar(&o.program, "program", "", "sessions: static program at `PATH` that does nothing (default one of 129 bytes)")
	fs.StringVar(&o.json, "json", "", "write all results to `FILE` as JSON")
	fs.StringVar(&o.plot, "plot", "", "draw the ratios to bubblewrap in `FILE`, an SVG")
	fs.BoolVar(&o.realtime, "realtime", false, "ask for SCHED_RR priority 1, so that other load disturbs less")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		printHelp(fs, out)
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w; see nsbench --help", err)
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("%q is not a flag; see nsbench --help", fs.Arg(0))
	case o.rounds < 1 || o.workers < 1:
		return o, errors.New("--rounds and --workers take a number from 1 on")
	}
	return o, knownGroups(o.only)
}

// knownGroups returns an error if one of the names is not that of a group.
func knownGroups(names []string) error {
	var known []string
	for _, g := range groups {
		known = append(known, g.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--only %s: no group has this name; the groups are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

func printHelp(fs *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, "nsbench [flags]\n\nMeasures nsrun beside bubblewrap and the bare fork+exec, as the user who calls it.\n\n")
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(out, "  %-18s %s\n", strings.TrimSpace("--"+f.Name+" "+value), usage)
	})
	fmt.Fprint(out, "\nGroups:\n")
	for _, g := range groups {
		fmt.Fprintf(out, "  %-18s %s\n", g.name, g.about)
	}
}
