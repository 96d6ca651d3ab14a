package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// builder compiles each package's tests once for each way to build them, and each program that tests start once.
type builder struct {
	root, out string

	mu   sync.Mutex
	once map[string]func() (string, error)
}

// build is a way to build tests.
type build struct {
	name string   // part of a stage's name; empty for the ordinary way
	args []string // of go test
	env  []string
	exec []string // what runs the binary
}

var (
	plain       = build{env: []string{"CGO_ENABLED=0"}}
	withRace    = build{name: "race", args: []string{"-race"}, env: []string{"CGO_ENABLED=1"}}
	libseccomp  = build{name: "libseccomp", args: []string{"-tags", "libseccomp"}, env: []string{"CGO_ENABLED=1"}}
	arm64Native = build{name: "arm64", env: []string{"CGO_ENABLED=0", "GOARCH=arm64"}, exec: []string{"qemu-aarch64-static"}}
)

func newBuilder(root, out string) *builder {
	return &builder{root: root, out: out, once: map[string]func() (string, error){}}
}

func (b *builder) do(key string, f func() (string, error)) (string, error) {
	b.mu.Lock()
	do := b.once[key]
	if do == nil {
		do = sync.OnceValues(f)
		b.once[key] = do
	}
	b.mu.Unlock()
	return do()
}

// test returns the path of a package's test binary.
func (b *builder) test(ctx context.Context, dir string, how build) (string, error) {
	key := how.name + "_" + strings.ReplaceAll(dir, "/", "_") + ".test"
	return b.do(key, func() (string, error) {
		name := filepath.Join(b.out, key)
		return name, b.run(ctx, how.env, slices.Concat([]string{"go", "test", "-c", "-o", name}, how.args, []string{"./" + dir})...)
	})
}

// programs builds what tests start, and returns its directory: see testenv.Built.
func (b *builder) programs(ctx context.Context) (string, error) {
	return b.do("programs", func() (string, error) {
		dir := filepath.Join(b.out, "programs")
		for _, pkg := range append([]string{"cmd/nsrun"}, testPrograms...) {
			if err := b.run(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(dir, pkg), "./"+pkg); err != nil {
				return dir, err
			}
		}
		return dir, nil
	})
}

// converter builds the program that makes events of tests' output. The ordinary user's environment is not one for the go command.
func (b *builder) converter(ctx context.Context) (string, error) {
	return b.do("test2json", func() (string, error) {
		name := filepath.Join(b.out, "test2json")
		return name, b.run(ctx, nil, "go", "build", "-o", name, "cmd/test2json")
	})
}

func (b *builder) run(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// job is one package's tests as one user, built one way.
type job struct {
	dir  string
	as   who
	how  build
	only string // -test.run
	tier tier
	args []string
}

// timeout bounds one job. Only a test that hangs reaches it: an emulated machine takes a quarter of that, and all of three quarters beside others.
const timeout = 70 * time.Minute

// run runs a job and returns what came of its tests. The error shows what the tests that failed printed.
func (j job) run(ctx context.Context, b *builder, log io.Writer) (tally, error) {
	binary, err := b.test(ctx, j.dir, j.how)
	if err != nil {
		return tally{}, err
	}
	programs, err := b.programs(ctx)
	if err != nil {
		return tally{}, err
	}
	convert, err := b.converter(ctx)
	if err != nil {
		return tally{}, err
	}
	args := slices.Concat(j.how.exec, []string{binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout", timeout.String()}, j.args)
	if j.only != "" {
		args = append(args, "-test.run", j.only)
	}
	env := j.as.env
	if env == nil {
		env = os.Environ()
	}
	if len(j.as.drop) == 0 { // this user owns it
		env = append(slices.Clip(env), testenv.Dir+"="+b.out)
	}
	env = slices.Concat(env, []string{testenv.Built + "=" + programs, testenv.TierVar + "=" + j.tier.String(), "NSRUN_BIN=" + filepath.Join(programs, "cmd/nsrun"),
		"GORACE=atexit_sleep_ms=50"}) // by default each process under the race detector sleeps a second before it ends
	if eighth := os.Getenv(testenv.EighthVar); eighth != "" && j.as.env != nil {
		env = append(env, testenv.EighthVar+"="+eighth)
	}
	args = slices.Concat(j.as.drop, args)
	ctx, cancel := context.WithTimeout(ctx, timeout+2*time.Minute) // a process that is left can keep the output open
	defer cancel()
	cmd := exec.CommandContext(ctx, convert, append([]string{"-t", "-p", j.dir}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(j.as.tree, j.dir), env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the tests, too
	cmd.WaitDelay = time.Minute
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return tally{}, err
	}
	if err := cmd.Start(); err != nil {
		return tally{}, err
	}
	r := newReader(log)
	readErr := r.read(out)
	err = errors.Join(cmd.Wait(), readErr)
	switch {
	case err != nil:
	case r.passed+r.skipped == 0:
		err = errors.New("no test ran")
	case r.failed > 0 || len(r.running) > 0:
		err = fmt.Errorf("exit code 0, but %d tests failed and %d did not end", r.failed, len(r.running))
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, r.failures(), stderr.String())
	}
	return r.tally, err
}

// reader reads test2json's events.
type reader struct {
	tally
	log     io.Writer
	texts   map[string]*strings.Builder // output of tests that have not passed, by name; "" is the package's own
	running map[string]bool             // tests that have not ended
}

func newReader(log io.Writer) *reader {
	return &reader{tally: tally{counts: map[string]int{}}, log: log, texts: map[string]*strings.Builder{}, running: map[string]bool{}}
}

var counted = regexp.MustCompile(`count: ([^:]+): (\d+)\s*$`)

func (r *reader) read(from io.Reader) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			r.event(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) event(line []byte) {
	var e struct{ Action, Test, Output string }
	if json.Unmarshal(line, &e) != nil {
		e.Action, e.Output = "output", string(line)
	}
	switch e.Action {
	case "run":
		r.running[e.Test] = true
	case "pass", "skip", "fail":
		delete(r.running, e.Test)
	}
	switch e.Action {
	case "output":
		_, _ = io.WriteString(r.log, e.Output)
		r.text(e.Test).WriteString(e.Output)
		if m := counted.FindStringSubmatch(e.Output); m != nil {
			n, _ := strconv.Atoi(m[2])
			r.counts[m[1]] += n
		}
	case "pass":
		if e.Test != "" {
			r.passed++
			delete(r.texts, e.Test)
		}
	case "skip":
		if e.Test != "" {
			r.skipped++
			if text := r.text(e.Test).String(); strings.Contains(text, "lacks") || strings.Contains(text, "not installed") {
				r.lacking++
			}
			delete(r.texts, e.Test)
		}
	case "fail":
		if e.Test != "" {
			r.failed++
		}
	}
}

func (r *reader) text(test string) *strings.Builder {
	if r.texts[test] == nil {
		r.texts[test] = &strings.Builder{}
	}
	return r.texts[test]
}

// most is how much of one failed test's output is shown.
const most = 8000

// failures returns the output of the tests that failed, of those that did not end, and of the package itself.
func (r *reader) failures() string {
	var names []string
	for name := range r.texts {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, cmp.Compare)
	var out strings.Builder
	for _, name := range append(names, "") {
		if b := r.texts[name]; b != nil {
			text := b.String()
			if len(text) > most {
				text = text[:most/2] + "\n[...]\n" + text[len(text)-most/2:]
			}
			out.WriteString(text)
		}
	}
	return out.String()
}
