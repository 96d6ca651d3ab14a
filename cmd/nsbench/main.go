// Command nsbench measures the time from the start of a sandbox runner to the end of /bin/true in it: the bare fork+exec, nsrun, and
// bwrap if it is installed, interleaved in one run; and what sessions take. Only ratios within one run say anything; medians are noisy,
// minima steady.
//
//	go build -o bin/nsrun ./cmd/nsrun && go run ./cmd/nsbench
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun"
)

// runner is one way to run /bin/true.
type runner struct {
	name  string
	argv  []string
	input string // a file for standard input
	took  []time.Duration
}

func main() {
	nsrun.Init()
	binary := flag.String("nsrun", "bin/nsrun", "nsrun binary")
	rounds := flag.Int("n", 200, "runs of each at no binds; fewer at many")
	only := flag.String("only", "", "sessions or limits: leave out the rest")
	flag.StringVar(&nothing, "program", "", "static program that does nothing, for sessions (default one of 129 bytes)")
	flag.Parse()
	if err := bench(*binary, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "nsbench:", err)
		os.Exit(1)
	}
}

func bench(nsrun string, rounds int, only string) error {
	nsrun, err := filepath.Abs(nsrun)
	if err != nil {
		return err
	}
	if _, err := os.Stat(nsrun); err != nil {
		return fmt.Errorf("%w; build it first: go build -o bin/nsrun ./cmd/nsrun", err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "nsbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	switch only {
	case "":
	case "sessions":
		return benchSessions(dir, rounds)
	case "limits":
		return benchLimits(nsrun, rounds)
	default:
		return fmt.Errorf("-only %s: not known; it is sessions, limits or nothing", only)
	}
	for _, binds := range []int{0, 10, 100, 1000} {
		paths, err := makeDirs(dir, binds)
		if err != nil {
			return err
		}
		n := rounds
		if binds >= 100 {
			n = max(5, rounds*20/binds)
		}
		if err := compare(fmt.Sprintf("%d binds", binds), n, runners(nsrun, paths, binds == 0)); err != nil {
			return err
		}
	}
	if err := benchBwrap(nsrun, dir, rounds); err != nil {
		return err
	}
	if err := benchLimits(nsrun, rounds); err != nil {
		return err
	}
	return benchSessions(dir, rounds)
}

func makeDirs(dir string, n int) ([]string, error) {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(paths[i], 0o755); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// covered are places that nsrun covers in every sandbox.
var covered = []string{
	"/proc/acpi", "/proc/cmdline", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg",
	"/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/pagetypeinfo", "/proc/slabinfo", "/proc/sysrq-trigger",
	"/proc/timer_list", "/proc/vmallocinfo", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hostname", "/etc/machine-id",
	"/etc/hosts", "/etc/resolv.conf", "/proc/sys/kernel/random/boot_id",
}

// sameView is what makes bwrap cover them too.
func sameView() (args []string) {
	for _, place := range covered {
		if info, err := os.Lstat(place); err == nil && !info.IsDir() && info.Mode()&os.ModeSymlink == 0 {
			args = append(args, "--ro-bind", "/dev/null", place)
		}
	}
	return args
}

// bwrapSystem is a call of bwrap's for what nsrun shows by itself.
func bwrapSystem(bwrap string) []string {
	return []string{bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc",
		"--ro-bind", "/opt", "/opt", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/dev/shm"}
}

// runners asks nsrun and bwrap for the like: all namespaces, system directories, /proc, /dev, /tmp, and the binds. nsrun adds
// Landlock, a seccomp filter, limits, and covers over /proc and /etc; "bwrap, covered" has the last of these.
func runners(nsrun string, paths []string, bare bool) []*runner {
	ours := []string{nsrun, "run"}
	theirs := bwrapSystem("bwrap")
	for _, p := range paths {
		ours = append(ours, "--ro", p)
		theirs = append(theirs, "--ro-bind", p, p)
	}
	all := []*runner{{name: "fork+exec", argv: []string{"/bin/true"}}}
	if bare {
		all = append(all, &runner{name: "nsrun version", argv: []string{nsrun, "version"}})
	}
	all = append(all, &runner{name: "nsrun run", argv: append(ours[:len(ours):len(ours)], "--", "/bin/true")})
	if bare {
		for _, flags := range [][]string{{"--self-test"}, {"--backend=landlock"}, {"--backend=landlock", "--self-test"}, {"--isolation=subprocess"}} {
			all = append(all, &runner{name: "nsrun run " + strings.Join(flags, " "), argv: append(slices.Concat(ours, flags), "--", "/bin/true")})
		}
	}
	if _, err := exec.LookPath("bwrap"); err == nil {
		all = append(all, &runner{name: "bwrap", argv: append(theirs[:len(theirs):len(theirs)], "/bin/true")})
		if bare {
			all = append(all, &runner{name: "bwrap, covered", argv: append(append(theirs, sameView()...), "/bin/true")})
		}
	}
	return all
}

// works reports whether a runner works here.
func works(r *runner) bool { return exec.Command(r.argv[0], r.argv[1:]...).Run() == nil }

func compare(title string, n int, all []*runner) error {
	for range n {
		for _, r := range all {
			cmd := exec.Command(r.argv[0], r.argv[1:]...)
			cmd.Dir = "/usr"
			if r.input != "" {
				f, err := os.Open(r.input)
				if err != nil {
					return err
				}
				cmd.Stdin = f
			}
			start := time.Now()
			out, err := cmd.CombinedOutput()
			r.took = append(r.took, time.Since(start))
			if f, ok := cmd.Stdin.(*os.File); ok {
				f.Close()
			}
			if err != nil {
				return fmt.Errorf("%s: %w: %s", r.name, err, out)
			}
		}
	}
	fmt.Printf("%s, %d runs of each\n", title, n)
	var base *runner
	for _, r := range all {
		slices.Sort(r.took)
		if r.name == "bwrap" {
			base = r
		}
	}
	for _, r := range all {
		line := fmt.Sprintf("  %-44s min %8.2f ms   median %8.2f ms", r.name, ms(r.took[0]), ms(r.median()))
		if base != nil && r != base {
			line += fmt.Sprintf("   of bwrap's: %.2f, %.2f", ms(r.took[0])/ms(base.took[0]), ms(r.median())/ms(base.median()))
		}
		fmt.Println(line)
	}
	return nil
}

func (r *runner) median() time.Duration { return r.took[len(r.took)/2] }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
