package mounts

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnAnchorIsOpenedOnce looks at a tmpfs below a directory of the host: it is opened once for all that is put into it, again when
// something covers it, and for nothing that lies outside of it or behind a bind inside of it.
func TestAnAnchorIsOpenedOnce(t *testing.T) {
	host := fakeHost{"/w/d/f": "file", "/usr/share/x": "file", "/usr/x": "file"}
	bind := func(dest string) Op { return Op{Kind: Bind, Source: "/usr", Dest: dest, Flags: Flags{ReadOnly}} }
	text, _, err := lowerCompat(t, newWay, host, bind("/"), Op{Kind: Bind, Source: "/w", Dest: "/share"},
		Op{Kind: Tmpfs, Dest: "/share/d", Mode: 0o755}, bind("/share/d/1"), bind("/share/d/deep/2"), bind("/share/d/1/share"), bind("/share/d/3"),
		Op{Kind: Tmpfs, Dest: "/share/d", Mode: 0o755}, bind("/share/d/4"), bind("/share/d/5"))
	require.NoError(t, err)
	var got []string
	for _, line := range strings.Split(text, "\n") {
		if m := regexp.MustCompile(`(openat2)\(\S+ ("share/d\S*"),.*= (\$\d+)|(move_mount)\(\S+ "", (\S+), (\S+),`).FindStringSubmatch(line); m != nil {
			got = append(got, strings.TrimSpace(strings.Join(m[1:], " ")))
		} else if strings.Contains(line, "close($8)") {
			got = append(got, "close $8")
		}
	}
	const dst, anchor = "$3", "$8"
	assert.Equal(t, []string{
		`move_mount $1 "."`, `move_mount $3 ""`, // the binds of the host
		`openat2 "share/d" ` + dst, // to mount the tmpfs
		`openat2 "share/d" ` + anchor, `move_mount $8 "1"`, `move_mount $8 "deep/2"`,
		`openat2 "share/d/1/share" ` + dst, `move_mount $3 ""`, // in the bind: no path leads through it
		`move_mount $8 "3"`,
		`openat2 "share/d" ` + dst, "close " + anchor, // the second tmpfs covers the first
		`openat2 "share/d" ` + anchor, `move_mount $8 "4"`, `move_mount $8 "5"`, "close " + anchor,
	}, got, text)
}
