package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// options is what the command line asks for.
type options struct {
	tier   tier
	slice  int // -1 for all of the tier
	resume bool
	list   bool
	needs  bool
	only   string
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
		err = run(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test.sh:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("scripts/test.sh", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: scripts/test.sh [--quick | --all [--resume] | --slice N] [--only TEXT] [--list] [--packages]")
		flags.PrintDefaults()
	}
	quickly := flags.Bool("quick", false, "checks and cheap tests as this user: at most 2 minutes; installs nothing")
	whole := flags.Bool("all", false, "everything: virtual machines, Docker, clients, race detector, other bubblewraps, arm64; 3 hours where machines are emulated")
	flags.BoolVar(&o.resume, "resume", false, "skip stages that have passed on the same inputs")
	flags.IntVar(&o.slice, "slice", -1, "only part `N`, 0 to 8, of what --all has beyond the fast tier")
	flags.StringVar(&o.only, "only", "", "only stages whose names contain `TEXT`")
	flags.BoolVar(&o.list, "list", false, "print the stages and run nothing")
	flags.BoolVar(&o.needs, "packages", false, "print the Debian packages that the stages need and run nothing")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.tier = fast
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is no flag; see scripts/test.sh --help", flags.Arg(0))
	case *quickly && (*whole || o.slice >= 0), *whole && o.slice >= 0:
		return o, errors.New("--quick, --all and --slice exclude each other")
	case o.slice >= parts || o.slice < -1:
		return o, fmt.Errorf("--slice %d: the parts are 0 to %d", o.slice, parts-1)
	case *quickly:
		o.tier = quick
	case *whole, o.slice >= 0:
		o.tier = all
	}
	return o, nil
}

func run(ctx context.Context, o options) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "scripts/runtests")); err != nil {
		return errors.New("run scripts/test.sh, which begins at the top of the tree")
	}
	syscall.Umask(0o022) // the ordinary user runs what is built
	for _, v := range os.Environ() {
		// What makes one test binary run otherwise, such as a single point of fault injection, is not for a whole run.
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "NSRUN_TEST_") && name != testenv.EighthVar && name != "NSRUN_TEST_USER" {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	if !o.list && !o.needs {
		unlock, err := lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	begin := time.Now()
	id := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(begin.Unix(), 36)
	if err := os.Setenv(runVar, id); err != nil { // what runs from here on is this run's
		return err
	}
	out, err := testenv.MakeDir("nsrun-tests-") // the ordinary user runs what is in it
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	passed, err := newLedger(ctx, root) // before the tree is copied
	if err != nil {
		return err
	}
	users, undo, err := testUsers(ctx, root, o.tier != quick && !o.list && !o.needs)
	if err != nil {
		return err
	}
	defer undo()
	for i := range users[1:] {
		users[i+1].env = append(users[i+1].env, runVar+"="+id)
	}
	r := &runner{users: users, builder: newBuilder(root, out)}
	stages, err := r.stages(ctx, o.tier)
	if err != nil {
		return err
	}
	stages, left := choose(stages, o)
	if o.list {
		return list(os.Stdout, stages)
	}
	if o.needs {
		_, err := fmt.Println(strings.Join(needed(stages), " "))
		return err
	}
	if o.tier != quick {
		if _, err := install(ctx, os.Stdout, stages); err != nil {
			return err
		}
	}
	return r.runAll(ctx, o, passed, stages, left, begin, id)
}

// choose cuts a tier's stages down to what was asked for, and names those that are left out.
func choose(stages []stage, o options) (chosen []stage, left []string) {
	covered := map[string]bool{}
	for _, s := range stages {
		covered[s.covers] = o.slice < 0 && o.tier == all
	}
	for _, s := range stages {
		switch {
		case covered[s.name]:
		case o.slice >= 0 && s.tier != all, o.only != "" && !strings.Contains(s.name, o.only):
		case o.slice >= 0 && s.slice != o.slice:
			left = append(left, s.name)
		default:
			chosen = append(chosen, s)
		}
	}
	return chosen, left
}

func list(out io.Writer, stages []stage) error {
	for _, s := range stages {
		part := "-"
		if s.tier == all {
			part = strconv.Itoa(s.slice)
		}
		if _, err := fmt.Fprintf(out, "%-6s %s %4d s  %s\n", s.tier, part, s.seconds, s.name); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) runAll(ctx context.Context, o options, passed *ledger, stages []stage, left []string, begin time.Time, id string) error {
	if len(stages) == 0 {
		return fmt.Errorf("no stage's name contains %q; see --list", o.only)
	}
	logs, err := logDir()
	if err != nil {
		return err
	}
	width := 2
	fmt.Printf("%d stages, %d at a time; as %s; their output is in %s\n", len(stages), width, names(r.users), logs)
	before, running := look(), processes()
	report := &reporter{out: os.Stdout, begin: begin, all: len(stages)}
	ended := schedule(ctx, stages, width, func(s stage) (e outcome) {
		e.stage = s
		if o.resume && passed.passed(ctx, s) {
			e.before = true
			return e
		}
		log, err := os.Create(filepath.Join(logs, strings.NewReplacer("/", "_", " ", "_", ",", "").Replace(s.name)+".log"))
		if err != nil {
			e.err = err
			return e
		}
		defer log.Close()
		began := time.Now()
		e.tally, e.err = s.run(ctx, log)
		e.took = time.Since(began)
		if e.err == nil {
			e.err = errors.Join(s.tooFew(e.tally), passed.remember(ctx, r.root, e))
		}
		return e
	}, report)
	changed := append(look().changes(before, id), leftovers(running, id, r.builder.out, r.users)...)
	if len(changed) > 0 {
		passed.forget()
	}
	return r.summary(ctx, o, stages, ended, left, changed, begin)
}

// lock makes sure that root runs one test run at a time: the ordinary user's account and the machine's state are shared.
func lock() (unlock func(), err error) {
	if os.Getuid() != 0 {
		return func() {}, nil
	}
	f, err := os.OpenFile("/run/nsrun-tests.lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("root runs scripts/test.sh already on this machine (/run/nsrun-tests.lock: %w)", err)
	}
	return func() { _ = os.Remove(f.Name()); f.Close() }, nil
}

// logDir makes a directory for the output of stages. One is kept, the last.
func logDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "nsrun-tests", "logs")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

func names(users []who) string {
	var list []string
	for _, u := range users {
		list = append(list, u.name)
	}
	return strings.Join(list, " and ")
}

// summary prints what came of a run, and returns an error unless everything passed and the machine is as it was.
func (r *runner) summary(ctx context.Context, o options, stages []stage, ended []outcome, left, changed []string, begin time.Time) error {
	var sum tally
	var failed []string
	for _, e := range ended {
		sum.add(e.tally)
		if e.err != nil {
			failed = append(failed, e.stage.name)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(sum.counts)) {
		fmt.Printf("%s in this run: %d\n", what, sum.counts[what])
	}
	if len(left) > 0 {
		fmt.Printf("left out, in other slices: %s\n", strings.Join(left, "; "))
	}
	for _, line := range changed {
		fmt.Println("the tests have changed this machine:", line)
	}
	slices.Sort(failed)
	for _, name := range failed {
		fmt.Println("failed:", name)
	}
	fmt.Printf("tier %s, %d of %d stages, %s\n", o.tier, len(ended), len(stages), time.Since(begin).Round(time.Second))
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	switch {
	case len(failed) > 0:
		return fmt.Errorf("%d of %d stages failed", len(failed), len(stages))
	case len(changed) > 0:
		return errors.New("the tests have changed this machine")
	case ctx.Err() != nil || len(ended) < len(stages):
		return errors.New("interrupted")
	}
	return nil
}
