package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate returns every fault of p, joined; each is a *[Fault].
func (p Policy) Validate() error {
	var faults []error
	say := func(field, format string, args ...any) {
		faults = append(faults, &Fault{Field: field, Text: fmt.Sprintf(format, args...)})
	}
	for i, e := range p.FS {
		e.check(fmt.Sprintf("fs[%d]", i), func(field, format string, args ...any) {
			faults = append(faults, &Fault{Field: field, Text: fmt.Sprintf(format, args...), Why: e.Why})
		})
	}
	if err := CheckPath(p.Dir); p.Dir != "" && err != nil {
		say("dir", "%v", err)
	}
	if err := CheckPath(p.Home); p.Home != "" && err != nil {
		say("home", "%v", err)
	}
	p.checkHome(say)
	if err := CheckPath(p.KeepHome); p.KeepHome != "" && err != nil {
		say("home", "%v", err)
	}
	p.Env.check(say)
	oneOf(say, "network", p.Network, Networks)
	p.checkAllow(say)
	if err := CheckHostname(p.Hostname); p.Hostname != "" && err != nil {
		say("hostname", "%v", err)
	}
	checkID("uid", p.UID, say)
	checkID("gid", p.GID, say)
	p.checkLimits(say)
	if p.Timeout < 0 || p.KillGrace < 0 || p.MaxProcessTime < 0 {
		say("timeout", "durations cannot be negative")
	}
	oneOf(say, "fallback", p.Fallback, Fallbacks)
	oneOf(say, "backend", p.Backend, Backends)
	oneOf(say, "autonomy", p.Autonomy, Autonomies)
	oneOf(say, "isolation", p.Isolation, Isolations)
	oneOf(say, "protect", p.Protect, Protects)
	oneOf(say, "explain", p.Explain, Explains)
	for i, place := range p.ProtectPaths {
		if err := CheckPath(place); err != nil {
			say(fmt.Sprintf("protect_paths[%d]", i), "%v", err)
		}
	}
	if p.Isolation.Level() != Container && p.Backend != "" && p.Backend != BackendAuto && p.Backend != BackendNone {
		say("isolation", "%s is no sandbox, and the backend %s is one; leave out one of them", p.Isolation, p.Backend)
	}
	p.checkRequire(say)
	for i, file := range p.Audit {
		if err := CheckPath(file); err != nil {
			say(fmt.Sprintf("audit[%d]", i), "%v", err)
		}
	}
	if err := checkLabels(p.Labels); err != nil {
		say("labels", "%v", err)
	}
	return errors.Join(faults...)
}

type sayer func(field, format string, args ...any)

// oneOf checks a word, of which the empty one stands for a default.
func oneOf[T ~string](say sayer, field string, word T, all []T) {
	if word != "" && !slices.Contains(all, word) {
		last := len(all) - 1
		say(field, "%q is unknown; use %s or %s", word, strings.Join(Words(all[:last]), ", "), all[last])
	}
}

// Words gives words of a kind as strings.
func Words[T ~string](all []T) []string {
	words := make([]string, len(all))
	for i, w := range all {
		words[i] = string(w)
	}
	return words
}

func (p Policy) checkLimits(say sayer) {
	for i, l := range p.Limits {
		if err := l.Check(); err != nil {
			say("limits", "%v", err)
		}
		if slices.ContainsFunc(p.Limits[:i], func(o Limit) bool { return o.Name == l.Name }) {
			say("limits", "%s is given twice", l.Name)
		}
	}
}

// Check returns what is wrong with an entry by itself, for a front end that knows where it was written.
func (e FS) Check() (err error) {
	e.check("", func(_, format string, args ...any) { err = cmp.Or(err, fmt.Errorf(format, args...)) })
	return err
}

func (e FS) check(field string, say sayer) {
	if !slices.Contains([]Kind{Bind, Socket, Overlay, Tmpfs, Proc, Dev, Dir, Symlink, File}, e.Kind) {
		say(field+".kind", "%q is unknown", e.Kind)
		return
	}
	if err := CheckPath(e.Dest); err != nil {
		say(field+".dest", "%v", err)
	} else if e.Dest == "/" {
		say(field+".dest", "/ is the sandbox's own root; name the directories to show in it")
	}
	switch e.Kind {
	case Bind, Socket, Overlay:
		if err := CheckPath(e.Source); err != nil {
			say(field+".source", "%v", err)
			return
		}
		for _, kernel := range []string{"/proc", "/sys", "/dev"} {
			if (Inside(e.Source, kernel) || Inside(e.Dest, kernel) && e.Kind != Socket) && !e.showsCPUs() {
				say(field+".source", "%s: nothing of the host's %s can be shown; the sandbox has its own /proc and /dev", e.Source, kernel)
			}
		}
		if e.Source == "/" {
			say(field+".source", "/ is the whole host; name the directories that are needed")
		}
	case Symlink:
		if e.Source == "" || hasControl(e.Source) {
			say(field+".source", "a symlink needs a target without control characters")
		}
	}
	if e.Agent && e.Kind != Socket {
		say(field+".agent", "only a socket can be an agent's")
	}
	if e.SizeMB < 0 || e.Inodes < 0 {
		say(field+".size", "cannot be negative")
	}
	if e.Mode > 0o7777 {
		say(field+".mode", "%o is not a mode", e.Mode)
	}
}

func (e Env) check(say sayer) {
	for i, name := range e.Pass {
		switch {
		case !ValidEnvName(name):
			say(fmt.Sprintf("env.pass[%d]", i), "%q is not a variable name", name)
		case strings.ContainsAny(name, "*?["):
			say(fmt.Sprintf("env.pass[%d]", i), "%q holds a pattern, and none is expanded; name each variable", name)
		}
	}
	for i, v := range e.Set {
		if !ValidEnvName(v.Name) || strings.Contains(v.Value, "\x00") {
			say(fmt.Sprintf("env.set[%d]", i), "%q: a name cannot be empty or hold =, and neither name nor value a NUL", v.Name)
		}
	}
}

// CheckPath says why s cannot be a path in a policy: it must be absolute, clean, valid UTF-8 without control characters, and
// within the kernel's limits of 4095 bytes and 255 for each name.
func CheckPath(s string) error {
	switch {
	case s == "":
		return errors.New("the path is empty")
	case hasControl(s):
		return fmt.Errorf("%q holds control characters, marks that reorder text, or bytes that are not UTF-8", s)
	case !strings.HasPrefix(s, "/"):
		return fmt.Errorf("%q is relative; give an absolute path", s)
	case strings.Contains(s+"/", "/../"):
		return fmt.Errorf("%q holds ..; give the path it leads to", s)
	case path.Clean(s) != s:
		return fmt.Errorf("%q is not clean; write %q", s, path.Clean(s))
	case len(s) > 4095:
		return fmt.Errorf("%.40q... is %d bytes long; the kernel takes 4095", s, len(s))
	}
	for name := range strings.SplitSeq(s, "/") {
		if len(name) > 255 {
			return fmt.Errorf("%.40q... is a name of %d bytes; the kernel takes 255", name, len(name))
		}
	}
	return nil
}

// CheckText says why s cannot be shown or passed on: NUL, control characters, marks that reorder text, or not UTF-8.
func CheckText(s string) error {
	if hasControl(s) {
		return fmt.Errorf("%q holds control characters, marks that reorder text, or bytes that are not UTF-8", s)
	}
	return nil
}

func hasControl(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	return strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || // C0, DEL, C1
			r >= 0x200e && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff
	})
}

// CheckHostname says why s cannot be a host name: 1 to 64 letters, digits, dots, hyphens or underscores (sethostname(2)).
func CheckHostname(s string) error {
	ok := len(s) >= 1 && len(s) <= 64
	for _, r := range s {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	}
	if !ok {
		return fmt.Errorf("%q is not a host name; use 1 to 64 letters, digits, dots or hyphens", s)
	}
	return nil
}

func checkID(field string, id *int, say sayer) {
	if id != nil && (*id < 0 || *id >= 1<<31) {
		say(field, "%d is out of range; give 0 to %d", *id, 1<<31-1)
	}
}
