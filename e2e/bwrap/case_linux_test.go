package bwrap_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/testenv"
)

// scene is one case: a command line and what it needs.
type scene struct {
	name   string
	argv   []string
	argv0  string
	env    []string
	cwd    string
	host   []string
	fds    map[int]string
	out    []int
	ignore []string // fields not to compare
	racy   bool     // two processes may or may not come to say the same
	only   string   // user
	spec   spec     // the rest, as the supervisor takes it
}

// spec is what testdata/fingerprint takes.
type spec struct {
	Path, Dir, Cwd string
	Argv, Env      []string
	Host           []string
	Fds            map[int]string
	Out            []int
	Stdin          string
	Tty            bool
	Umask          int
	Ignore, Block  []int
	Close          []int
	Nofile         int
	Signal         int
	Timeout        int
}

// base shows the sandbox the fingerprint, of which the command {FP} prints.
const base = "--ro-bind {INSIDE} /fp"

// initWaits is a line of shell that waits until pid 1 has done all that it has to do before it waits for its children.
const initWaits = `until grep -q "^State:.S" /proc/1/status; do sleep 0.01; done; `

type choice func(*scene)

// c makes a case. Words are separated by blanks; quotes keep them together. {HOST} is the directory made for the run, {FP} the
// fingerprint inside, {BASE} what shows it.
func c(name, words string, choices ...choice) scene {
	s := scene{name: name, argv0: "bwrap", cwd: "{HOST}", fds: map[int]string{}, argv: split(strings.ReplaceAll(words, "{BASE}", base))}
	s.env = []string{"PATH=/usr/bin:/bin", "HOME=/home/nowhere", "LANG=C.UTF-8", "EMPTY="}
	s.spec = spec{Umask: 0o022, Timeout: int(testenv.Limit(0).Milliseconds())}
	for _, f := range choices {
		f(&s)
	}
	return s
}

// split divides a line into words.
func split(line string) []string {
	var words []string
	var word strings.Builder
	quote, inside := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == ' ' || r == '\n' || r == '\t':
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			inside = true
			word.WriteRune(r)
		}
	}
	if inside {
		words = append(words, word.String())
	}
	return words
}

func host(lines ...string) choice { return func(s *scene) { s.host = append(s.host, lines...) } }
func fd(n int, what string) choice {
	return func(s *scene) { s.fds[n] = what }
}
func out(n int) choice {
	return func(s *scene) { s.fds[n] = "out"; s.out = append(s.out, n) }
}
func env(words ...string) choice  { return func(s *scene) { s.env = words } }
func setenv(word string) choice   { return func(s *scene) { s.env = append(slices.Clone(s.env), word) } }
func cwd(dir string) choice       { return func(s *scene) { s.cwd = dir } }
func ignore(f ...string) choice   { return func(s *scene) { s.ignore = append(s.ignore, f...) } }
func with(f func(*spec)) choice   { return func(s *scene) { f(&s.spec) } }
func zeroth(word string) choice   { return func(s *scene) { s.argv0 = word } }
func stdin(text string) choice    { return with(func(s *spec) { s.Stdin = text }) }
func racy(s *scene)               { s.racy = true }
func words(argv ...string) choice { return func(s *scene) { s.argv = append(s.argv, argv...) } }
func signalled(number int) choice { return with(func(s *spec) { s.Signal = number }) }
func closed(fds ...int) choice    { return with(func(s *spec) { s.Close = fds }) }
func args(n int, w ...string) choice { // an arguments file
	return fd(n, "data:"+strings.Join(w, "\x00")+"\x00")
}

// fill makes the supervisor's specification of a case for one binary.
func (s scene) fill(dir, binary string) spec {
	r := strings.NewReplacer("{HOST}", dir, "{INSIDE}", built.inside, "{FPBIN}", built.finger, "{FP}", "/fp/fp", "{BWRAP}", binary)
	p := s.spec
	p.Path, p.Dir, p.Cwd = binary, dir, r.Replace(s.cwd)
	p.Argv = append([]string{s.argv0}, every(s.argv, r.Replace)...)
	p.Env = every(s.env, r.Replace)
	p.Host = every(s.host, r.Replace)
	p.Fds = map[int]string{}
	for n, what := range s.fds {
		p.Fds[n] = r.Replace(what)
	}
	p.Out = s.out
	return p
}

func every(words []string, f func(string) string) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = f(word)
	}
	return out
}

// scenes are all cases.
func scenes() []scene {
	topics := map[string][]scene{
		"grammar": grammarScenes(), "text": textScenes(), "default": defaultScenes(), "file": fileScenes(), "bind": bindScenes(),
		"symlink": symlinkScenes(), "space": spaceScenes(), "cap": capScenes(), "life": lifeScenes(), "status": statusScenes(),
		"denied": deniedScenes(), "seccomp": seccompScenes(), "overlay": overlayScenes(), "client": clientScenes(), "mixed": mixedScenes(),
	}
	var all []scene
	seen := map[string]bool{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for _, s := range topics[topic] {
			s.name = topic + "/" + s.name
			if seen[s.name] {
				panic(fmt.Sprintf("two cases are called %s", s.name))
			}
			seen[s.name] = true
			all = append(all, s)
		}
	}
	return all
}
