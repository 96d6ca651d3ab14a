package bwrap_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// outcome is what can be seen of a run: for each field its lines.
type outcome map[string][]string

func outcomeOf(r report, binary string) outcome {
	o := outcome{"exit": {r.Exit}, "stderr": lines(r.Stderr), "host": r.Host, "left": r.Left}
	var f struct{ Fingerprint map[string][]string }
	if strings.HasPrefix(r.Stdout, `{"fingerprint"`) && json.Unmarshal([]byte(r.Stdout), &f) == nil {
		for key, value := range f.Fingerprint {
			o["fp."+key] = value
		}
	} else {
		o["stdout"] = lines(r.Stdout)
	}
	for n, text := range r.Out {
		o["fd "+strconv.Itoa(n)] = lines(text)
	}
	o.spaces(r.Spaces)
	for key, value := range o {
		for i, line := range value {
			value[i] = plain(key, strings.ReplaceAll(line, binary, "{BWRAP}"))
		}
	}
	return o
}

// spaces says of each namespace whether it is the host's.
func (o outcome) spaces(host map[string]string) {
	for name, link := range host {
		key := "fp.ns." + name
		if len(o[key]) == 0 {
			continue
		}
		if o[key][0] == link {
			o[key] = []string{"host"}
		} else {
			o[key] = []string{"own"}
		}
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(text, "\n"), "\n"), func(line string) bool {
		return strings.HasPrefix(line, strings.Repeat(" ", 30)) // goes on to tell what an option is for
	})
}

// vague lists what differs from run to run, with a word to put in its place; fields is a pattern of path.Match.
var vague = []struct {
	fields string
	text   *regexp.Regexp
	word   string
}{
	{"*", regexp.MustCompile(`bindfile[A-Za-z0-9]{6}`), "bindfile*"},
	{"*", regexp.MustCompile(`tmp-overlay-(upper|work)-[A-Za-z0-9]{6}`), "tmp-overlay-$1-*"},
	{"fd *", regexp.MustCompile(`("child-pid"|"[a-z]+-namespace"): [0-9]+`), "$1: N"},
	{"stdout", regexp.MustCompile(`("child-pid"|"[a-z]+-namespace"): [0-9]+`), "$1: N"},
	{"stdout", regexp.MustCompile(`\b(pipe|socket|user|mnt|pid|ipc|net|uts|cgroup):\[[0-9]+\]`), "$1:[N]"},
	{"stderr", regexp.MustCompile(`fp=0x\S+ sp=0x\S+ pc=0x\S+`), "frame"}, // of a fingerprint that gave up
	{"fp.mount", regexp.MustCompile(`\b(user|pid):\[[0-9]+\]`), "$1:[N]"},
	{"fp.mount", regexp.MustCompile(`/proc/self/fd/[0-9]+`), "/proc/self/fd/N"},
	{"stderr", regexp.MustCompile(`/proc/self/fd/[0-9]+`), "/proc/self/fd/N"},
	{"stderr", regexp.MustCompile(`\bpid [0-9]+`), "pid N"},
	{"std*", regexp.MustCompile(`^(    --[a-z0-9-]+(?: [A-Z0-9]+)*) +[A-Z]*[a-z].*$`), "$1"}, // what an option is for is told in other words
	{"fp.*", regexp.MustCompile(`/dev/pts/[0-9]+|/pts/[0-9]+`), "/pts/N"},
	{"fp.mount", regexp.MustCompile(`^/[0-9]+ on /dev/console `), "/N on /dev/console "},
	{"fp.list *", regexp.MustCompile(`(console [0-7]+ [0-9]+:[0-9]+) dev 136:[0-9]+`), "$1 dev pts"},
}

func plain(field, line string) string {
	for _, v := range vague {
		if ok, _ := path.Match(v.fields, strings.ReplaceAll(field, "/", "|")); ok {
			line = v.text.ReplaceAllString(line, v.word)
		}
	}
	return line
}

// difference is a field in which two outcomes differ, and how.
type difference struct {
	field string
	text  string
}

// compare lists the fields that differ.
func compare(want, got outcome, ignored []string) []difference {
	want, got = level(want, got)
	var out []difference
	fields := slices.Collect(maps.Keys(want))
	for field := range got {
		if _, ok := want[field]; !ok {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	for _, field := range fields {
		if slices.Contains(ignored, field) || slices.Equal(want[field], got[field]) || field == "fp.mount" && onlyProcLater(want[field], got[field]) {
			continue
		}
		out = append(out, difference{field, contrast(want[field], got[field])})
	}
	return out
}

// onlyProcLater reports whether two mount tables differ in nothing but that lines of a procfs come later in got, where nsrun may mount it: doc/bwrap.md
// names that difference. The procfses are in the same order among themselves, and so are all others.
func onlyProcLater(want, got []string) bool {
	isProc := func(line string) bool { return strings.Contains(line, " proc proc ") }
	split := func(lines []string) (procs, others []string, at []int) {
		for i, line := range lines {
			if isProc(line) {
				procs, at = append(procs, line), append(at, i)
			} else {
				others = append(others, line)
			}
		}
		return procs, others, at
	}
	procs, others, at := split(want)
	gotProcs, gotOthers, gotAt := split(got)
	if !slices.Equal(procs, gotProcs) || !slices.Equal(others, gotOthers) {
		return false
	}
	for i := range at {
		if gotAt[i] < at[i] {
			return false
		}
	}
	return true
}

// level leaves of a fingerprint only that there is one, when there is but one.
func level(want, got outcome) (outcome, outcome) {
	if (len(want["fp.mount"]) > 0) == (len(got["fp.mount"]) > 0) {
		return want, got
	}
	without := func(o outcome) outcome {
		short := outcome{"ran": {fmt.Sprint(len(o["fp.mount"]) > 0)}}
		for field, value := range o {
			if !strings.HasPrefix(field, "fp.") {
				short[field] = value
			}
		}
		return short
	}
	return without(want), without(got)
}

const shownLines, shownWidth = 12, 300

// contrast shows what only one side has, or else where the order differs.
func contrast(want, got []string) string {
	var b strings.Builder
	n := 0
	show := func(sign, line string) {
		if n++; n <= shownLines {
			fmt.Fprintf(&b, "      %s %.*s\n", sign, shownWidth, line)
		}
	}
	for _, line := range without(want, got) {
		show("want", line)
	}
	for _, line := range without(got, want) {
		show("got ", line)
	}
	if n == 0 {
		for i := range want {
			if want[i] != got[i] {
				show(fmt.Sprintf("order: want line %d", i), want[i])
				show(fmt.Sprintf("order: got  line %d", i), got[i])
			}
		}
	}
	if n > shownLines {
		fmt.Fprintf(&b, "      and %d more\n", n-shownLines)
	}
	return b.String()
}

// without returns the lines of a that b lacks; a line counts as often as it occurs.
func without(a, b []string) []string {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	var out []string
	for _, line := range a {
		if count[line]--; count[line] < 0 {
			out = append(out, line)
		}
	}
	return out
}

// TestOnlyProcLater is about the one difference in the order of mounts that compare allows.
func TestOnlyProcLater(t *testing.T) {
	a, b, proc, other := "/ on /a [] ext4", "/ on /b [] ext4", "/ on /proc rw [] proc proc rw", "/bus on /proc/bus ro [] proc proc rw"
	for _, c := range []struct {
		want, got []string
		allowed   bool
	}{
		{[]string{proc, other, a, b}, []string{a, proc, other, b}, true}, {[]string{proc, a, other, b}, []string{a, b, proc, other}, true},
		{[]string{a, proc, b}, []string{proc, a, b}, false}, {[]string{proc, a, b}, []string{b, a, proc}, false}, {[]string{proc, other, a}, []string{a, other, proc}, false},
		{[]string{proc, a}, []string{a}, false}, {[]string{proc, a}, []string{a, proc, proc}, false}, {[]string{proc, a}, []string{a, b, proc}, false},
	} {
		assert.Equal(t, c.allowed, onlyProcLater(c.want, c.got), "%q %q", c.want, c.got)
	}
}
