package hostrun

import "strings"

// setting is a shape of keys by which git runs a program, in git's own spelling: "core.editor"; "diff.*.command", whose * is a subsection; "alias.**", all of a section.
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
	{"core.hooksPath", nil, "git on the host would run the hooks there"},
	{"core.sshCommand", nil, whyRuns},
	{"core.pager", nil, whyRuns},
	{"core.editor", nil, whyRuns},
	{"core.askPass", nil, whyRuns},
	{"core.gitProxy", nil, whyRuns},
	{"core.alternateRefsCommand", nil, whyRuns},
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
	{"interactive.diffFilter", nil, whyRuns},
	{"credential.helper", nil, whyRuns},
	{"credential.*.helper", nil, whyRuns},
	{"gpg.program", nil, whyRuns},
	{"gpg.*.program", nil, whyRuns},
	{"gpg.ssh.defaultKeyCommand", nil, whyRuns},
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
	{"sendemail.**", sendsMail, whyRuns},
	{"uploadpack.packObjectsHook", nil, whyRuns},
	{"gc.recentObjectsHook", nil, whyRuns},
	{"lfs.customtransfer.*.path", nil, "git-lfs on the host would run it"},
	{"lfs.standaloneTransferAgent", nil, "git-lfs on the host would run it"},
	{"lfs.extension.*.clean", nil, "git-lfs on the host would run it"},
	{"lfs.extension.*.smudge", nil, "git-lfs on the host would run it"},
	{"init.templateDir", nil, "git on the host would copy hooks from there"},
	{"submodule.*.update", func(v string) bool { return strings.HasPrefix(v, "!") }, whyRuns},
	{"remote.*.uploadpack", nil, whyRuns},
	{"remote.*.receivepack", nil, whyRuns},
	{"remote.*.vcs", nil, whyRuns},
	{"remote.*.proxy", nil, whyServer},
	{"remote.*.url", helper, whyServer},
	{"remote.*.pushurl", helper, whyServer},
	{"submodule.*.url", helper, whyServer},
	{"branch.*.remote", helper, whyServer},
	{"branch.*.pushRemote", helper, whyServer},
	{"url.*.insteadOf", nil, whyServer},
	{"url.*.pushInsteadOf", nil, whyServer},
	{"protocol.allow", permits, "git on the host would run helpers that it refuses otherwise"},
	{"protocol.*.allow", permits, "git on the host would run helpers that it refuses otherwise"},
	{"include.path", nil, whyReads},
	{"includeIf.*.path", nil, whyReads},
}

// sendsMail is a condition of a section's names, which gets one in the place of the value: see [Setting.Runs].
func sendsMail(name string) bool {
	switch name {
	case "smtpserver", "sendmailcmd", "tocmd", "cccmd", "headercmd":
		return true
	}
	return false
}

// Runs reports whether git would run a program because of the setting, or read more settings. name is its key as git's manuals spell it; why says what
// git would do.
func (s Setting) Runs() (name, why string, ok bool) {
	first, last := strings.IndexByte(s.Key, '.'), strings.LastIndexByte(s.Key, '.')
	if s.Value == "" || first < 0 { // an empty value takes back what another file says
		return "", "", false
	}
	for _, row := range settings {
		if spelled, ok := row.matches(s.Key, first, last); ok && (row.when == nil || row.when(s.subject(row))) {
			return spelled, row.why, true
		}
	}
	return "", "", false
}

// subject is what the condition of a row is about: the value; of a row for a whole section, the name, where that is what counts.
func (s Setting) subject(row setting) string {
	if row.shape == "sendemail.**" {
		return s.Key[strings.LastIndexByte(s.Key, '.')+1:]
	}
	return s.Value
}

// matches reports whether a key, with its first and last dot, is of the row's shape, and gives it in the row's spelling.
func (r setting) matches(key string, first, last int) (spelled string, ok bool) {
	if section, all := strings.CutSuffix(r.shape, "**"); all {
		return key, key[:first+1] == section
	}
	prefix, name, sub := strings.Cut(r.shape, ".*.")
	switch {
	case !sub:
		return r.shape, key == strings.ToLower(r.shape)
	case last <= len(prefix) || key[last+1:] != strings.ToLower(name) || !strings.HasPrefix(key, strings.ToLower(prefix)+"."):
		return "", false
	}
	return prefix + key[len(prefix):last+1] + name, true
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
