package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func rep(s string, n int) string { return strings.Repeat(s, n/len(s)) }

// stairs indents each line more than the one above.
func stairs(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func keys(n int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostile are files that are slow, deep or large for readers that were not made for them.
func hostile(n int) map[string]string {
	deep := n / 2
	return map[string]string{
		"json lists": `{"a":` + rep("[", n), "json objects": rep(`{"a":`, n), "closed": `{"a":` + rep("[", deep) + rep("]", deep),
		"json members": "{" + keys(n, `"k%d":1,`) + `"z":1}`, "json duplicates": "{" + rep(`"k":1,`, n) + `"z":1}`,
		"json items": `{"pass_env":[` + rep(`"A",`, n) + `"z"]}`, "json string": `{"name":"` + rep("a", n) + `"}`,
		"json escapes": `{"name":"` + rep(`\u00e9`, n) + `"}`, "json key": `{"` + rep("a", n) + `":1}`, "json digits": `{"uid":` + rep("9", n) + "}",
		"json hint": `{"capabilities":[{"kind":"fs","mode":"read","hints":["` + rep("/a", n) + `"]}]}`,
		"json far":  "{" + rep(" ", n) + "x", "json lines": "{" + rep("\n", n) + "x", "é": `{"name":"` + rep("é", n) + `"}`,
		"[": rep("[", n), "- ": rep("- ", n), "? ": rep("? ", n), "stairs": stairs(n), "{a: ": "a: " + rep("{a: ", n), "[\n": rep("[\n", n),
		"a: 1": rep("a: 1\n", n), "&a": rep("&a ", n), "! ": rep("! ", n), "\"": "a: \"" + rep("x", n), "|": "a: |\n" + rep(" x\n", n),
		"#": rep("#\n", n), "- x": rep("- x\n", n), "[a,": "[" + rep("a,", n), "folded": "a: x\n" + rep(" x\n", n), ": ": rep(": ", n),
		"members": keys(n, "k%d: v\n"), "flow members": "a: {" + keys(n, "k%d: v,") + "}", "nested members": "a:\n" + keys(n, "  k%d:\n    b: 1\n"),
		",": "[" + rep(",", n), "nul": rep("\x00", n), "-\n": rep("-\n", n), "|bar": rep("a: |\n", n), "[]": rep("[]", n), "---": rep("---\n", n),
		"%": rep("%", n), "*a": rep("*a ", n), "'": "a: '" + rep("''", n), ":": rep(":", n), "- -\n": rep("- -\n", n), "null values": keys(n, "k%d:\n"),
		"pairs": "[" + rep("a: b,", n) + "]", "[a: ": rep("[a: ", n), "comments": keys(n, "k%d: v #c\n"), "tabs": rep("\t", n), "x x": rep("x ", n),
	}
}

// leastTime returns the least CPU time that f takes of some tries: caches and the garbage collector cost it more in others.
func leastTime(tries int, f func()) time.Duration {
	least := testenv.CPUTime(f)
	for range tries - 1 {
		least = min(least, testenv.CPUTime(f))
	}
	return least
}

// TestHostileFilesAreRefusedFast compares the CPU time of each file with that in which encoding/json reads a harmless file of the greatest
// size, in the same process; the slowest hostile file takes about as long. A reader whose
// time grows with the square of the size takes hundreds of times as long.
func TestHostileFilesAreRefusedFast(t *testing.T) {
	harmless := []byte(`{"pass_env":[` + rep(`"A",`, MaxSize-64) + `"z"]}`)
	unit := leastTime(5, func() {
		var value any
		require.NoError(t, json.Unmarshal(harmless, &value))
	})
	slowest := 0.0
	for _, n := range []int{4 << 10, MaxSizeYAML - 16, MaxSize - 64, MaxSize + 64} {
		for name, text := range hostile(n) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took := leastTime(3, func() {
				if m, err := Parse("m", []byte(text)); err == nil && n > MaxSizeYAML {
					t.Errorf("MF19 %s of %d bytes is taken: %.40v", name, n, m)
				}
			})
			runtime.ReadMemStats(&after)
			slowest = max(slowest, float64(took)/float64(unit))
			assert.Lessf(t, took, 4*unit, "MF19 %s of %d bytes", name, n)
			assert.Lessf(t, (after.TotalAlloc-before.TotalAlloc)/3, uint64(64<<20), "MF19 memory for %s of %d bytes", name, n)
		}
	}
	t.Logf("the slowest took %.1f times the %v of a harmless file", slowest, unit)
}

func TestDepth(t *testing.T) {
	for depth, ok := range map[int]bool{30: true, 31: true, 32: false, 100: false} {
		for _, text := range []string{
			`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}",
			"a: " + strings.Repeat("[", depth) + strings.Repeat("]", depth),
			"a:\n  " + strings.Repeat("- ", depth) + "x",
		} {
			_, err := Parse("m", []byte(text))
			assert.ErrorContains(t, err, map[bool]string{true: "no such key", false: "nested deeper than 32"}[ok])
		}
	}
}

func TestEntries(t *testing.T) {
	many := `{"pass_env":[` + strings.Repeat(`"A",`, maxEntries) + `"B"]}`
	_, err := Parse("m", []byte(many))
	assert.ErrorContains(t, err, "more than 10000 entries")
	_, err = Parse("m", []byte("pass_env:\n"+strings.Repeat("- A\n", maxEntries)))
	assert.ErrorContains(t, err, "more than 10000 entries")
	_, err = Parse("m", []byte(`{"x":[`+strings.Repeat(`"A",`, maxEntries-2)+`"B"]}`))
	assert.ErrorContains(t, err, "no such key")
	_, err = Parse("m", []byte("{"+keys(20000, `"k%d":1,`)+`"z":1}`))
	assert.ErrorContains(t, err, "more faults than 100")
}

func TestPlaces(t *testing.T) {
	_, err := Parse("m", []byte("# é\nname: x\r\nextra_ro:\r\n- /a\r\n- \"é\": é\r\n"))
	assert.ErrorContains(t, err, "m:5:3: extra_ro[1]:", "lines end in CR LF too, and columns are characters")
	_, err = Parse("m", []byte("{\"name\": \"é\", \"é\": 1}"))
	assert.ErrorContains(t, err, "m:1:15: [\"é\"]:")
	_, err = Parse("m", []byte("a\rb"))
	assert.ErrorContains(t, err, "U+000D", "a bare CR is a line end to some")
}

func TestNumbers(t *testing.T) {
	for _, s := range []string{"0", "-0", "1", "-1", "10", "1.0", "1e1", "1E+1", "1.5e-3", "0.1", "01", "+1", "1.", ".1", "-", "", "1e", "1e+", "0x1", "1_0", "--1", "1.e1", "NaN"} {
		assert.Equalf(t, json.Valid([]byte(s)), isNumber(s), "%q", s)
	}
}

// plain gives a tree as encoding/json would decode it.
func plain(n *node) any {
	switch n.kind {
	case null:
		return nil
	case boolean:
		return n.text == "true"
	case number:
		return json.Number(n.text)
	case list:
		all := make([]any, len(n.items))
		for i, item := range n.items {
			all[i] = plain(item)
		}
		return all
	case object:
		all := map[string]any{}
		for _, m := range n.members {
			all[m.name] = plain(m.value)
		}
		return all
	}
	return n.text
}

func readTree(data []byte) (*node, error) {
	t := &tree{}
	root, _ := t.read(data)
	if err := t.err(); err != nil {
		return nil, err
	}
	return root, nil
}

// FuzzJSON compares our reader with encoding/json: what we take it takes, with the same values; what it takes and we refuse has a
// reason that our reader gives on purpose.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{everything, `{"a":[1,-0.5e3,true,false,null,"\u00e9\ud83d\ude00\n"],"b":{"c":[]}}`, `{"a":1}x`, `{"a":01}`, `{"a":tru}`, `{"\ud800":1}`, `{"a" :	[ ] }`, "{}\n", `{"a":"/\/"}`, `{"a":"\\ufffd\ufffd\uFFFD\\"}`, `{"a":"\uD83D\u0041"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
			return
		}
		root, err := readTree(data)
		if err != nil {
			onPurpose := []string{"already", "U+", "UTF-8", "byte order", "deeper", "entries", "surrogate", "larger"}
			if json.Valid(data) && !slices.ContainsFunc(onPurpose, func(why string) bool { return strings.Contains(err.Error(), why) }) {
				t.Fatalf("%q is JSON: %v", data, err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		require.NoErrorf(t, d.Decode(&want), "%q", data)
		assert.Equalf(t, want, plain(root), "%q", data)
	})
}

// FuzzYAML compares what we take with another reader of YAML: a file must not mean something else to a reviewer's tools.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{everythingYAML, "a: b\nc:\n- d\n- e: f\n  g: h\n", "a: \"x\\ty\"\nb: 'it''s'\n", "a: |\n  x\n  y\nb: >-\n  x\n  y\n", "a: x\n  y\n", "? a\n: b\n", "a: [b, {c: d}]\n", "---\na: b\n",
		"a:\n  b:\n c: d\n", "a: b: c\n", "a: - b\n", "- a\n-\n  b\n", "a: #x\n  b\n", "a:b\n", "'a': 1\n", "a: @x\n", "a: `x\n", "a: x #y\n", "a: x#y\n", "\"a\" : b\n", "a: \"x\n  y\"\n", "a: [x\n,y]\n", "{a: b}\n", "a: {b, c: }\n",
		"A: {A:}", ">\n  0\n  0", "A: 0\nB:\n   ?", "0\t0", "A #\n: 0A", "\"\"\n: 0", "A:\n-\nA: 0", "  A:\n 0 \n", "a: *b\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] == '{' {
			return
		}
		root, err := readTree(data)
		if err != nil {
			return
		}
		if root.kind != object || refusedAnyway(root) {
			return
		}
		var doc yaml.Node
		if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 {
			return // ours takes some files that are not quite YAML; they have no other meaning
		}
		assert.Equalf(t, shape(doc.Content[0]), ours(root), "%q", data)
	})
}

// refusedAnyway reports whether a tree holds what no form takes.
func refusedAnyway(n *node) bool {
	return n.kind == null || n.kind == unclear || slices.ContainsFunc(n.items, refusedAnyway) ||
		slices.ContainsFunc(n.members, func(m member) bool { return refusedAnyway(m.value) })
}

// shape and ours spell a tree with the text of its scalars, quoted or not.
func shape(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		all := []any{"{"}
		for i := 0; i < len(n.Content); i += 2 {
			all = append(all, n.Content[i].Value, shape(n.Content[i+1]))
		}
		return all
	case yaml.SequenceNode:
		all := []any{"["}
		for _, item := range n.Content {
			all = append(all, shape(item))
		}
		return all
	}
	return n.Value
}

func ours(n *node) any {
	switch n.kind {
	case object:
		all := []any{"{"}
		for _, m := range n.members {
			all = append(all, m.name, ours(m.value))
		}
		return all
	case list:
		all := []any{"["}
		for _, item := range n.items {
			all = append(all, ours(item))
		}
		return all
	}
	return n.text
}
