package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// group is a part of what nsbench measures, by the name that --only takes.
type group struct {
	name, about string
	run         func(*bench) error
}

// groups is the table of all groups, in the order in which they run.
var groups = []group{
	{"bwrap", "nsrun called as bwrap: its version, one bind, a minimal sandbox", commands(bwrapCases)},
	{"run", "nsrun run with every layer, against bubblewrap with the nearest like view", commands(runCases)},
	{"binds", "10, 100 and 1000 binds, as bwrap and run; a bind of 1000 directories", commands(bindCases)},
	{"backends", "nsrun run by each backend, with and without the self-test", commands(backendCases)},
	{"docker", "nsrun run --backend docker and docker run, if a daemon answers", commands(dockerCases)},
	{"limits", "what each limit adds to a run", commands(limitCases)},
	{"explain", "programs in nsrun run with --explain and --explain=all, against none and strace -f", (*bench).explain},
	{"network", "what an allow-list adds to a start, to connections and to a download", (*bench).network},
	{"version", "nsrun version against a Go program that does nothing", commands(versionCases)},
	{"throughput", "runs per second, as many at a time as --workers says", (*bench).throughput},
	{"memory", "private memory and PSS of idle sandboxes, without the command", (*bench).memory},
	{"sessions", "the library: open a session, exec in it, run", (*bench).sessions},
	{"pool", "the library: Get of a pool, and exec", (*bench).pool},
	{"ndjson", "exec in nsrun session over NDJSON", (*bench).ndjson},
	{"heap", "sessions, from a process with a heap of 1 GB", (*bench).heap},
}

// commandCase is a case whose contenders are command lines.
type commandCase struct {
	title      string
	part       int                                // 1 in part of the rounds, where one takes long
	contenders func(*bench) ([]*contender, error) // none: the case is left out
}

var bwrapCases = []commandCase{
	{"as bwrap: --version", 1, bwrapLine("--version")},
	{"as bwrap: --ro-bind / /", 1, bwrapLine("--ro-bind / / true")},
	{"as bwrap: minimal sandbox", 1, func(b *bench) ([]*contender, error) { return contenders(b.minimal(), "true"), nil }},
	{"as bwrap: all namespaces, /usr, /dev, /proc, /tmp", 1,
		bwrapLine(everything + " " + system + " /bin/true")},
}

var runCases = []commandCase{
	{"run: every layer", 1, func(b *bench) ([]*contender, error) { return contenders(b.layered(nil), "/bin/true"), nil }},
}

var bindCases = []commandCase{
	{"as bwrap: all namespaces, 10 binds", 1, bwrapBinds(10, everything)},
	{"as bwrap: all namespaces, 100 binds", 2, bwrapBinds(100, everything)},
	{"as bwrap: all namespaces, 1000 binds", 8, bwrapBinds(1000, everything)},
	{"as bwrap: 10 binds", 1, bwrapBinds(10, "")},
	{"as bwrap: 100 binds", 2, bwrapBinds(100, "")},
	{"as bwrap: 1000 binds", 8, bwrapBinds(1000, "")},
	{"as bwrap: 1000 binds by --args", 8, bwrapArgsFile(1000)},
	{"run: 10 binds", 1, runBinds(10)},
	{"run: 100 binds", 2, runBinds(100)},
	{"run: 1000 binds", 8, runBinds(1000)},
	{"run: a bind of 1000 directories", 2, runTree(1000)},
}

var backendCases = []commandCase{
	{"backends", 1, runFlags("", "--self-test", "--backend=landlock", "--backend=landlock --self-test", "--backend=bwrap", "--isolation=subprocess")},
}

// limitCases name limits by what holds them. nsrun refuses those that take a cgroup where none can be made.
var limitCases = []commandCase{
	{"limits", 1, runFlags("", "--limit open_files=256", "--limit cpu_seconds=60", "--limit tmpfs_mb=16", "--limit output_bytes=1000000", "--limit memory_mb=256",
		"--limit pids=64", "--limit cpu_percent=100", "--limit memory_mb=256 --limit pids=64 --limit cpu_percent=100")},
}

var versionCases = []commandCase{{"version", 1, versionContenders}}

var dockerCases = []commandCase{{"docker", 20, dockerContenders}}

// commands measures a table of cases.
func commands(cases []commandCase) func(*bench) error {
	return func(b *bench) error {
		for _, c := range cases {
			all, err := c.contenders(b)
			if err != nil {
				return fmt.Errorf("%s: %w", c.title, err)
			}
			if len(all) == 0 {
				continue
			}
			if err := b.hold(contest{title: c.title, rounds: b.share(c.part), contenders: all}); err != nil {
				return err
			}
		}
		return nil
	}
}

// share returns 1 in part of the rounds, but at least 10 if there are so many.
func (b *bench) share(part int) int { return max(b.rounds/part, min(b.rounds, 10)) }

// floor is the bare fork and exec.
func floor() *contender { return &contender{name: "fork+exec", argv: []string{"/bin/true"}} }

// sandbox is a contender without the command that it runs.
type sandbox contender

// contenders adds a command to each sandbox, and the floor.
func contenders(sandboxes []sandbox, command ...string) []*contender {
	all := []*contender{floor()}
	for _, s := range sandboxes {
		c := contender(s)
		c.argv = slices.Concat(s.argv, command)
		all = append(all, &c)
	}
	return all
}

// called are nsrun as bwrap and the bubblewraps, called alike.
func (b *bench) called(args []string) []sandbox {
	all := []sandbox{{name: "nsrun as bwrap", argv: append([]string{b.bwrap}, args...), plotted: true}}
	for _, p := range b.theirs {
		all = append(all, sandbox{name: p.Name, argv: append([]string{p.copied}, args...), base: true})
	}
	return all
}

func (b *bench) minimal() []sandbox {
	return b.called(strings.Fields("--unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp"))
}

// everything makes all namespaces and the kernel's file systems.
const everything = "--unshare-all --die-with-parent --dev /dev --proc /proc --tmpfs /tmp"

// system shows the system directories of a host where /bin and /lib are symlinks.
const system = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64"

// like are bubblewrap's options for what nsrun run shows.
const like = "--unshare-all --die-with-parent --new-session " + system +
	" --ro-bind /etc /etc --ro-bind-try /opt /opt --proc /proc --dev /dev --tmpfs /tmp --tmpfs /var/tmp --tmpfs /dev/shm"

// layered are nsrun run and the bubblewraps with a like view: once the directories alone, and once with all that nsrun mounts. nsrun adds
// Landlock, a seccomp filter, a second user namespace and limits.
func (b *bench) layered(binds []string) []sandbox {
	ours, shown := []string{b.nsrun, "run"}, []string{}
	for _, path := range binds {
		ours = append(ours, "--ro", path)
		shown = append(shown, "--ro-bind", path, path)
	}
	all := []sandbox{{name: "nsrun run", argv: append(ours, "--"), plotted: true}}
	for _, p := range b.theirs {
		view := append([]string{p.copied}, strings.Fields(like)...)
		all = append(all, sandbox{name: p.Name, argv: slices.Concat(view, shown)},
			sandbox{name: p.Name + ", covered", argv: slices.Concat(view, b.covers, shown), base: true})
	}
	return all
}

// readCovers reads from a run which mounts nsrun makes for this user, and returns bubblewrap's options for those that like lacks.
func (b *bench) readCovers() (args []string, err error) {
	cmd := exec.Command(b.nsrun, "run", "--", "/bin/cat", "/proc/self/mountinfo")
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = runDir, b.env, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("mounts of nsrun run: %w: %s", err, lastLine(stderr.Bytes()))
	}
	view, err := mounts.ParseMountinfo(out)
	for _, m := range view {
		if m.Point != "/" && !slices.Contains(strings.Fields(like), m.Point) && !strings.HasPrefix(m.Point, "/dev/") {
			args = append(args, likeMount(m)...)
		}
	}
	return args, err
}

// likeMount returns bubblewrap's options for a mount of nsrun's: a place of the host, a covered file, or an empty directory.
func likeMount(m mounts.Mount) []string {
	switch info, err := os.Lstat(m.Point); {
	case m.FSType != "tmpfs" && m.FSType != "devtmpfs":
		return []string{"--ro-bind", m.Point, m.Point}
	case err == nil && !info.IsDir():
		return []string{"--ro-bind", "/dev/null", m.Point}
	}
	return []string{"--tmpfs", m.Point}
}

// bwrapLine compares nsrun as bwrap with the bubblewraps on one command line.
func bwrapLine(args string) func(*bench) ([]*contender, error) {
	return func(b *bench) ([]*contender, error) { return contenders(b.called(strings.Fields(args))), nil }
}

// binds makes n directories.
func (b *bench) binds(n int) (paths []string, err error) {
	for i := range n {
		paths = append(paths, filepath.Join(b.dir, "binds", fmt.Sprint(i)))
		err = errors.Join(err, os.MkdirAll(paths[i], 0o755))
	}
	return paths, err
}

// bindArgs binds n directories beside the system's.
func (b *bench) bindArgs(n int) ([]string, error) {
	paths, err := b.binds(n)
	args := strings.Fields(system)
	for i, path := range paths {
		args = append(args, "--ro-bind", path, fmt.Sprint("/b/", i))
	}
	return args, err
}

func bwrapBinds(n int, others string) func(*bench) ([]*contender, error) {
	return func(b *bench) ([]*contender, error) {
		args, err := b.bindArgs(n)
		return contenders(b.called(append(strings.Fields(others), args...)), "/bin/true"), err
	}
}

// bwrapArgsFile passes the options by --args, from a file that is the standard input.
func bwrapArgsFile(n int) func(*bench) ([]*contender, error) {
	return func(b *bench) ([]*contender, error) {
		args, err := b.bindArgs(n)
		file := filepath.Join(b.dir, "args")
		all := contenders(b.called([]string{"--args", "0"}), "/bin/true")
		for _, c := range all[1:] {
			c.input = file
		}
		return all, errors.Join(err, os.WriteFile(file, []byte(strings.Join(args, "\x00")+"\x00"), 0o600))
	}
}

func runBinds(n int) func(*bench) ([]*contender, error) {
	return func(b *bench) ([]*contender, error) {
		paths, err := b.binds(n)
		return contenders(b.layered(paths), "/bin/true"), err
	}
}

// runTree shows one directory with n directories in it.
func runTree(n int) func(*bench) ([]*contender, error) {
	return func(b *bench) ([]*contender, error) {
		paths, err := b.binds(n)
		return contenders(b.layered([]string{filepath.Dir(paths[0])}), "/bin/true"), err
	}
}

// runFlags compares runs with different flags. The first one is the base, and is needed.
func runFlags(sets ...string) func(*bench) ([]*contender, error) {
	return func(b *bench) ([]*contender, error) {
		all := []*contender{floor()}
		for i, flags := range sets {
			argv := slices.Concat([]string{b.nsrun, "run"}, strings.Fields(flags), []string{"--", "/bin/true"})
			all = append(all, &contender{name: strings.TrimSpace("nsrun run " + flags), argv: argv, base: i == 0, optional: i > 0})
		}
		return all, nil
	}
}

// versionContenders compares nsrun version with an empty Go program, if there is a Go that builds it.
func versionContenders(b *bench) ([]*contender, error) {
	all := []*contender{floor(), {name: "nsrun version", argv: []string{b.nsrun, "version"}}}
	empty, err := b.buildEmpty()
	if err != nil {
		b.leaveOut("version", "an empty Go program", err.Error())
		return all, nil
	}
	return append(all, &contender{name: "an empty Go program", argv: []string{empty}, base: true}), nil
}

// buildEmpty builds a Go program that does nothing.
func (b *bench) buildEmpty() (string, error) {
	source, linked := filepath.Join(b.dir, "empty.go"), filepath.Join(b.dir, "empty.linked")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", linked, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, text)
	}
	copied := filepath.Join(b.dir, "empty")
	return copied, copyFile(linked, copied)
}

// dockerContenders compares with containers, or returns none. The image is that which nsrun's backend docker makes of empty directories and
// symlinks.
func dockerContenders(b *bench) ([]*contender, error) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.leaveOut("docker", "docker", "it is not on PATH")
		return nil, nil
	}
	if err := exec.Command(docker, "version", "--format", "{{.Server.Version}}").Run(); err != nil {
		b.leaveOut("docker", "docker", "no daemon answers docker version")
		return nil, nil
	}
	ours := &contender{name: "nsrun run --backend=docker", argv: []string{b.nsrun, "run", "--backend=docker", "--", "/bin/true"}}
	if err := b.try(ours); err != nil {
		b.leaveOut("docker", "docker", "nsrun made no image for it: "+err.Error())
		return nil, nil
	}
	images, err := exec.Command(docker, "images", "-q", "nsrun-root").Output()
	image, _, _ := strings.Cut(string(images), "\n")
	argv := append([]string{docker}, strings.Fields("run --rm --network none --read-only --volume /usr:/usr:ro "+image+" /usr/bin/true")...)
	return append(contenders(b.layered(nil), "/bin/true"), ours, &contender{name: "docker run", argv: argv, base: true, optional: true}), err
}
