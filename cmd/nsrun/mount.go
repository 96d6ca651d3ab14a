package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// inManifest says where a path can stand that --mount cannot hold.
const inManifest = `a path with a colon goes into a manifest: "mounts": [{"from": ..., "to": ..., "write": true}]`

// parseMount reads SRC:DST[:ro][:noexec], docker's form: writable unless it says ro.
func parseMount(word string) (policy.FS, error) {
	e := policy.FS{Kind: policy.Bind, Write: true, Why: "--mount"}
	if line := typedMount(word); line != "" {
		return e, errors.New(line)
	}
	parts := strings.Split(word, ":")
	if len(parts) == 1 {
		return e, fmt.Errorf("write SRC:DST; for a path at its own place write %s or %s", mountLine(word, word, false), mountLine(word, word, true))
	}
	for _, option := range strings.FieldsFunc(strings.Join(parts[2:], ","), func(r rune) bool { return r == ',' }) {
		switch option {
		case "ro":
			e.Write = false
		case "noexec":
			e.NoExec = true
		case "rw", "exec":
		default:
			return e, fmt.Errorf("%q is no option; use ro or noexec, as in SRC:DST:ro,noexec; %s", option, inManifest)
		}
	}
	if parts[0] == "" || parts[1] == "" {
		return e, errors.New("a path is empty; write SRC:DST")
	}
	if !strings.HasPrefix(parts[1], "/") {
		return e, fmt.Errorf("%q is no path inside; give an absolute one", parts[1])
	}
	abs, err := absolute(parts[0])
	e.Source, e.Dest = abs, cleanDest(parts[1])
	return e, err
}

// cleanDest takes off the slash that completion leaves at the end of a directory.
func cleanDest(dest string) string {
	if len(dest) > 1 {
		return strings.TrimSuffix(dest, "/")
	}
	return dest
}

// typedMount says what to write for docker's other form, type=bind,source=SRC,target=DST,readonly, and nothing for any other word.
func typedMount(word string) string {
	values, readOnly := map[string]string{}, false
	for part := range strings.SplitSeq(word, ",") {
		name, value, _ := strings.Cut(part, "=")
		values[name] = value
		readOnly = readOnly || name == "ro" && value != "false" || name == "readonly" && value != "false"
	}
	of := func(names ...string) (found string) {
		for _, name := range names {
			if found == "" {
				found = values[name]
			}
		}
		return found
	}
	source, dest := of("source", "src"), of("target", "destination", "dst")
	switch {
	case dest == "":
		return ""
	case values["type"] == "tmpfs":
		return "leave it out: /tmp is a private tmpfs"
	case source == "":
		source = "SRC"
	}
	return "write " + mountLine(source, dest, readOnly)
}

// applyMounts adds what --mount shows. A source that is a socket is granted as a socket: only that is asked for when the command starts.
func (f *flags) applyMounts(pol *policy.Policy) (faults []error) {
	for _, word := range f.mounts {
		e, err := parseMount(word)
		if err != nil {
			faults = append(faults, fmt.Errorf("--mount %s: %w", word, err))
			continue
		}
		if info, err := os.Stat(e.Source); err == nil && info.Mode().Type() == os.ModeSocket {
			e.Kind, e.Write = policy.Socket, true
		}
		if i := slices.IndexFunc(pol.FS, func(o policy.FS) bool { return o.Why == e.Why && o.Dest == e.Dest && o.Source != e.Source }); i >= 0 {
			faults = append(faults, fmt.Errorf("--mount %s: %s is given twice, to show %s and %s; give one of them", word, e.Dest, pol.FS[i].Source, e.Source))
		}
		pol.FS = append(pol.FS, e)
	}
	return faults
}

// anywhereMount is a --mount with its source made absolute.
func anywhereMount(word string) (string, error) {
	source, rest, _ := strings.Cut(word, ":")
	abs, err := absolute(source)
	return abs + ":" + rest, err
}
