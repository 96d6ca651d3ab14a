package hostrun

import "strings"

// setting is a shape of keys by which git runs a program: "core.editor"; "diff.*.command", whose * is a subsection; "alias.**", all of a section.
type setting struct {
	shape string
	when  func(value string) bool // nil is always
	why   string
}

const (
	whyRuns   = "git on the host would run it"
	whyReads  = "git on the host would read more settings from there"
	whyServer = "git on the host would talk to what it names, which can be a program"
)

// settings lists them by git-config(1). git itself writes others for remotes, branches and submodules, which are none of these.
var settings = []setting{
	{"core.fsmonitor", notBool, whyRuns},
	{"core.hookspath", nil, "git on the host would run the hooks there"},
	{"core.sshcommand", nil, whyRuns},
	{"core.pager", nil, whyRuns},
	{"core.editor", nil, whyRuns},
	{"core.askpass", nil, whyRuns},
	{"core.gitproxy", nil, whyRuns},
	{"core.alternaterefscommand", nil, whyRuns},
	{"sequence.editor", nil, whyRuns},
	{"pager.**", notBool, whyRuns},
	{"alias.**", nil, whyRuns},
	{"diff.external", nil, whyRuns},
	{"diff.*.command", nil, whyRuns},
	{"diff.*.textconv", nil, whyRuns},
	{"filter.*.clean", nil, whyRuns},
	{"filter.*.smudge", nil, whyRuns},
	{"filter.*.process", nil, whyRuns},
	{"merge.*.driver", nil, whyRuns},
	{"interactive.difffilter", nil, whyRuns},
	{"credential.helper", nil, whyRuns},
	{"credential.*.helper", nil, whyRuns},
	{"gpg.program", nil, whyRuns},
	{"gpg.*.program", nil, whyRuns},
	{"gpg.ssh.defaultkeycommand", nil, whyRuns},
	{"trailer.*.command", nil, whyRuns},
	{"trailer.*.cmd", nil, whyRuns},
	{"hook.**", nil, whyRuns},
	{"mergetool.*.cmd", nil, whyRuns},
	{"mergetool.*.path", nil, whyRuns},
	{"difftool.*.cmd", nil, whyRuns},
	{"difftool.*.path", nil, whyRuns},
	{"guitool.*.cmd", nil, whyRuns},
	{"browser.*.cmd", nil, whyRuns},
	{"browser.*.path", nil, whyRuns},
	{"man.*.cmd", nil, whyRuns},
	{"man.*.path", nil, whyRuns},
	{"instaweb.httpd", nil, whyRuns},
	{"instaweb.browser", nil, whyRuns},
	{"tar.*.command", nil, whyRuns},
	{"imap.tunnel", nil, whyRuns},
	{"sendemail.**", names("smtpserver", "sendmailcmd", "tocmd", "cccmd", "headercmd"), whyRuns},
	{"uploadpack.packobjectshook", nil, whyRuns},
	{"lfs.customtransfer.*.path", nil, "git-lfs on the host would run it"},
	{"lfs.standalonetransferagent", nil, "git-lfs on the host would run it"},
	{"lfs.extension.*.clean", nil, "git-lfs on the host would run it"},
	{"lfs.extension.*.smudge", nil, "git-lfs on the host would run it"},
	{"init.templatedir", nil, "git on the host would copy hooks from there"},
	{"submodule.*.update", func(v string) bool { return strings.HasPrefix(v, "!") }, whyRuns},
	{"remote.*.uploadpack", nil, whyRuns},
	{"remote.*.receivepack", nil, whyRuns},
	{"remote.*.vcs", nil, whyRuns},
	{"remote.*.proxy", nil, whyServer},
	{"remote.*.url", helper, whyServer},
	{"remote.*.pushurl", helper, whyServer},
	{"submodule.*.url", helper, whyServer},
	{"branch.*.remote", helper, whyServer},
	{"branch.*.pushremote", helper, whyServer},
	{"url.*.insteadof", nil, whyServer},
	{"url.*.pushinsteadof", nil, whyServer},
	{"protocol.allow", permits, "git on the host would run helpers that it refuses otherwise"},
	{"protocol.*.allow", permits, "git on the host would run helpers that it refuses otherwise"},
	{"include.path", nil, whyReads},
	{"includeif.*.path", nil, whyReads},
}

// names is a condition of a section's names, which when gets in the place of the value: see [Setting.Runs].
func names(all ...string) func(string) bool {
	return func(name string) bool {
		for _, n := range all {
			if n == name {
				return true
			}
		}
		return false
	}
}

// Runs reports whether git would run a program because of the setting, or read more settings, and says which in words.
func (s Setting) Runs() (why string, ok bool) {
	if s.Value == "" { // it takes back what another file says
		return "", false
	}
	first, last := strings.IndexByte(s.Key, '.'), strings.LastIndexByte(s.Key, '.')
	if first < 0 {
		return "", false
	}
	for _, row := range settings {
		value := s.Value
		switch prefix, name, sub := strings.Cut(row.shape, ".*."); {
		case strings.HasSuffix(row.shape, ".**"):
			if s.Key[:first+1] != strings.TrimSuffix(row.shape, "**") {
				continue
			}
			if prefix == "sendemail.**" {
				value = s.Key[last+1:]
			}
		case sub:
			if first == last || s.Key[last+1:] != name || !strings.HasPrefix(s.Key, prefix+".") || last <= len(prefix) {
				continue
			}
		case s.Key != row.shape:
			continue
		}
		if row.when == nil || row.when(value) {
			return row.why, true
		}
	}
	return "", false
}

// Includes returns the files that a configuration includes.
func Includes(all []Setting) (paths []string) {
	for _, s := range all {
		if s.Key == "include.path" || strings.HasPrefix(s.Key, "includeif.") && strings.HasSuffix(s.Key, ".path") {
			paths = append(paths, s.Value)
		}
	}
	return paths
}

// notBool reports whether a value is none of git's booleans.
func notBool(v string) bool {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1", "false", "no", "off", "0":
		return false
	}
	return true
}

// helper reports whether git takes a location for that of a program: "ext::sh -c ...", or "name::address", which runs git-remote-name. One that begins
// with a dash has been taken for an option (CVE-2017-1000117).
func helper(location string) bool {
	name, _, ok := strings.Cut(location, "::")
	return strings.HasPrefix(location, "-") || ok && !strings.ContainsAny(name, "/@[")
}

// permits reports whether a value of protocol.*.allow permits the protocol.
func permits(v string) bool { return !strings.EqualFold(v, "never") }

// TodoCommands returns the lines of a rebase's list by which git runs a command.
func TodoCommands(data []byte) (lines []string) {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if words := strings.Fields(line); len(words) > 1 && (words[0] == "exec" || words[0] == "x") {
			lines = append(lines, line)
		}
	}
	return lines
}
