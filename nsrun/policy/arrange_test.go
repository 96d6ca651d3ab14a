package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func bind(source string, write bool) FS {
	return FS{Kind: Bind, Source: source, Dest: source, Write: write}
}

// fact is one of SystemFacts, as Default has it.
func fact(source string) FS {
	return FS{Kind: Bind, Source: source, Dest: source, NoExec: true, Optional: true, Quiet: true, System: true}
}

func dests(entries []FS) (all []string) {
	for _, e := range entries {
		s := e.Dest
		if e.Write {
			s += " rw"
		}
		all = append(all, s)
	}
	return all
}

func TestArrange(t *testing.T) {
	at := func(e FS, dest string) FS { e.Dest = dest; return e }
	for _, c := range []struct {
		name    string
		entries []FS
		want    []string
		note    string
	}{
		{"parents first", []FS{bind("/a/b/c", true), bind("/z", false), bind("/a/b", false), bind("/a", true)}, []string{"/a rw", "/z", "/a/b", "/a/b/c rw"}, ""},
		{"the same twice", []FS{bind("/a", true), bind("/a", true)}, []string{"/a rw"}, ""},
		{"read-only wins", []FS{bind("/a", true), bind("/a", false)}, []string{"/a"}, "/a was asked for read-only and writable; it is read-only"},
		{"covered", []FS{bind("/a", true), optional(bind("/a/b", true))}, []string{"/a rw"}, ""},
		{"covered, but it has to be there", []FS{bind("/a", true), bind("/a/b", true)}, []string{"/a rw", "/a/b rw"}, ""},
		{"not covered by another access", []FS{bind("/a", true), bind("/a/b", false)}, []string{"/a rw", "/a/b"}, ""},
		{"not covered by another source", []FS{bind("/a", false), at(bind("/x", false), "/a/b")}, []string{"/a", "/a/b"}, ""},
		{"not covered across a tmpfs", []FS{bind("/a", false), {Kind: Tmpfs, Dest: "/a/b"}, bind("/a/b/c", false)}, []string{"/a", "/a/b", "/a/b/c"}, ""},
		{"what may be missing covers nothing", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Optional: true}, bind("/a/b", false)}, []string{"/a", "/a/b"}, ""},
		{"noexec is an access", []FS{{Kind: Bind, Source: "/a", Dest: "/a", NoExec: true}, bind("/a/b", false)}, []string{"/a", "/a/b"}, ""},
		{"asked before system", []FS{{Kind: Tmpfs, Dest: "/tmp", System: true, Write: true}, bind("/tmp", false)}, []string{"/tmp"}, ""},
		{"system narrows", []FS{{Kind: Bind, Source: "/usr", Dest: "/usr", System: true}, bind("/usr", true)}, []string{"/usr"}, "/usr is the system's; it is read-only"},
		{"two sources", []FS{at(bind("/y", true), "/a"), at(bind("/x", true), "/a"), at(bind("/z", false), "/a")}, []string{"/a"}, "/a was asked for twice; it shows /z, not /x"},
		{"a fact of the system gives way to what lies above", []FS{bind("/var/lib", false), fact("/var/lib/dpkg")}, []string{"/var/lib"}, ""},
		{"and where that is forced to be writable", []FS{{Kind: Bind, Source: "/var", Dest: "/var", Write: true, Force: true}, fact("/var/lib/dpkg")}, []string{"/var rw"}, ""},
		{"but is not writable unasked", []FS{bind("/var", true), fact("/var/lib/dpkg")}, []string{"/var rw", "/var/lib/dpkg"}, ""},
		{"nor gives way to another source", []FS{at(bind("/x", false), "/var"), fact("/var/lib/dpkg")}, []string{"/var", "/var/lib/dpkg"}, ""},
		{"a preset gives way", []FS{{Kind: Overlay, Source: "/a", Dest: "/a", Write: true, Tool: "go"}, bind("/a", false)}, []string{"/a"}, ""},
		{"a preset gives way to the same", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Tool: "go"}, bind("/a", true)}, []string{"/a rw"}, ""},
		{"the system gives way to a preset", []FS{{Kind: Tmpfs, Dest: "/a", System: true}, {Kind: Bind, Source: "/a", Dest: "/a", Tool: "go"}}, []string{"/a"}, ""},
		{"two presets", []FS{{Kind: Bind, Source: "/a", Dest: "/a", Tool: "go"}, {Kind: Bind, Source: "/a", Dest: "/a", Tool: "cc"}}, []string{"/a"}, ""},
		{"an empty directory gives way", []FS{{Kind: Dir, Dest: "/a", System: true}, bind("/a", true)}, []string{"/a rw"}, ""},
		{"an empty directory inside a bind", []FS{bind("/home", true), {Kind: Dir, Dest: "/home/me", System: true}}, []string{"/home rw"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, notes := arrange(c.entries)
			assert.Equal(t, c.want, dests(got))
			text := ""
			for _, n := range notes {
				text += n.String() + "\n"
			}
			assert.Contains(t, text, c.note)
			if c.note == "" {
				assert.Empty(t, notes)
			}
			again, _ := arrange(got)
			assert.Equal(t, got, again, "arranging twice changes nothing")
			for range 20 {
				rand.Shuffle(len(c.entries), func(i, j int) { c.entries[i], c.entries[j] = c.entries[j], c.entries[i] })
				other, others := arrange(c.entries)
				assert.Equal(t, got, other, "MF13: the order of what is asked for does not matter")
				assert.Equal(t, notes, others)
			}
		})
	}
}

func TestStricterKeepsEachBound(t *testing.T) {
	a := FS{Kind: Tmpfs, Dest: "/a", Write: true, SizeMB: 5, Mode: 0o770, Why: "x", Within: []string{"/q"}}
	b := FS{Kind: Tmpfs, Dest: "/a", Write: true, NoExec: true, NoFollow: true, Found: true, SizeMB: 3, Inodes: 7, Mode: 0o707, Optional: true, Why: "w", Within: []string{"/q/r", "/s"}}
	got, _ := arrange([]FS{a, b})
	want := FS{Kind: Tmpfs, Dest: "/a", Write: true, NoExec: true, NoFollow: true, Found: true, SizeMB: 3, Inodes: 7, Mode: 0o700, Why: "w, x", Within: []string{"/q/r"}}
	assert.Equal(t, []FS{want}, got)
}

func optional(e FS) FS {
	e.Optional = true
	return e
}
