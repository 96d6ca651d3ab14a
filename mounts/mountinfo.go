package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mount is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)), with the fields that this package needs.
type Mount struct {
	ID, Parent int
	Root       string // within its file system
	Point      string // where it is mounted
	Options    []string
	FSType     string
	Source     string
}

// ParseMountinfo parses a whole mountinfo file. It decodes octal escapes and ignores fields that it does not know.
func ParseMountinfo(data []byte) ([]Mount, error) {
	var mounts []Mount
	for n, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		m, err := parseMount(string(line))
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d: %w", n+1, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func parseMount(line string) (Mount, error) {
	var m Mount
	front, back, found := strings.Cut(line, " - ")
	fields, tail := strings.Fields(front), strings.Fields(back)
	if !found || len(fields) < 6 || len(tail) < 1 {
		return m, fmt.Errorf("%q has too few fields", line)
	}
	var err1, err2 error
	m.ID, err1 = strconv.Atoi(fields[0])
	m.Parent, err2 = strconv.Atoi(fields[1])
	if err := errors.Join(err1, err2); err != nil {
		return m, err
	}
	m.Root, m.Point = unescape(fields[3]), unescape(fields[4])
	m.Options = strings.Split(fields[5], ",")
	m.FSType = unescape(tail[0])
	if len(tail) > 1 {
		m.Source = unescape(tail[1])
	}
	return m, nil
}

// unescape decodes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			out.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }

// At returns the mount that contains path: the last one mounted at the longest mount point above path.
func At(mounts []Mount, path string) (Mount, bool) {
	var best Mount
	found := false
	for _, m := range mounts {
		if within(path, m.Point) && len(m.Point) >= len(best.Point) {
			best, found = m, true
		}
	}
	return best, found
}

// Below returns the visible mounts strictly below path, outermost first. Of several mounts at one point it returns the last, which hides
// the others.
func Below(mounts []Mount, path string) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.Point == path || !within(m.Point, path) {
			continue
		}
		out = slices.DeleteFunc(out, func(o Mount) bool { return within(o.Point, m.Point) })
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b Mount) int { return strings.Compare(a.Point, b.Point) })
	return out
}

func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
