package commands

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the built-in command rules.
const (
	Passive = "passive"
	Full    = "full"
)

// Names lists the built-in command rules, the stricter ones first.
var Names = []string{Passive, Full}

// Rule is one shape of command line that may run.
type Rule struct {
	Program, Shape string
	// Env is set for the command, over all that policies and requests say.
	Env []string
	// Absent names files that must not be there, in the working directory, in that of a file argument, or above them in the workspace: the
	// program would run what they say. Why says what, and Try what can be run instead.
	Absent   []string
	Why, Try string
	// Plain says that FILE is no directory. With Absent, because further files of that kind may lie in it; without, Why says why.
	Plain bool
	// Globs says that the program takes FILE for a pattern, and expands it to other files than were checked.
	Globs bool
	// Caches names directories beside a FILE that the program writes to: they must not lead out of the workspace.
	Caches []string
}

// String gives the rule as a command line.
func (r Rule) String() string {
	if r.Shape == "" {
		return r.Program
	}
	return r.Program + " " + r.Shape
}

// rules are the built-in ones; full has those of passive too. Each extra says what it keeps out:
//   - python -m looks for modules in the working directory first, where a py_compile.py would run (PYTHONSAFEPATH, Python 3.11; -I before);
//     usercustomize is looked for below HOME (PYTHONNOUSERSITE);
//   - go would fetch or find the toolchain that go.mod names, and modules that are not at hand, read flags from a file below HOME, and run a C
//     compiler and pkg-config for cgo; GONOPROXY=none keeps GOPRIVATE from being an exception to GOPROXY=off;
//   - py_compile writes beside its file, in a __pycache__ that may be a link; mypy and ruff would write caches where links and configuration
//     lead. ruff check still writes where its configuration says fix: into files of the workspace, and wherever links in it lead, so far as
//     the sandbox lets it;
//   - mypy's plugins, rubocop's requires and its ERB are code that their configuration names; so is a bundler below .bundle's path;
//   - rubocop has bundler read Gemfile.lock, where a PLUGIN SOURCE loads what the index in .bundle names. CI keeps it from one occasion, the
//     advice to install extensions, and the variables of bundler's lead it, at any other, to where no index and no configuration can be;
//   - rubocop looks into .rubocop.yml, which is ERB, for the place of its cache, whatever its options say, unless a variable has it;
//   - rubocop expands a FILE itself, as a shell would;
//   - rg reads options, --pre among them, from the file that RIPGREP_CONFIG_PATH names;
//   - git runs what the workspace's own .git/config names: a pager, fsmonitor, hooks, gpg for formats and signatures, diff.external, textconv
//     and the clean filters of .gitattributes, and, for objects that are missing, a remote's helper. Settings in the environment go over the
//     file's; the two options do for diff; no transport is permitted. Filters can be turned off by nothing before Git 2.41, so what compares
//     the working tree, as status and a plain diff do, is not accepted.
func rules(name string) []Rule {
	git, rg := quietGit(), []string{"RIPGREP_CONFIG_PATH="}
	python := []string{"PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1"}
	mypy := append(slices.Clone(python), "MYPY_CACHE_DIR=/dev/null")
	ruff := []string{"RUFF_NO_CACHE=true"}
	bundler := []string{"BUNDLE_APP_CONFIG=/dev/null", "BUNDLE_USER_HOME=/dev/null"}
	rubocop := append(slices.Clone(bundler), "CI=true", "RUBOCOP_CACHE_ROOT=/tmp")
	vet := []string{"GOTOOLCHAIN=local", "GOENV=off", "GOFLAGS=", "CGO_ENABLED=0", "GOPROXY=off", "GONOPROXY=none", "GOVCS=*:off"}
	pycache := []string{"__pycache__"}
	mypyFiles := []string{"mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg", ".config/mypy"}
	rubocopFiles := []string{".rubocop.yml", ".rubocop", ".config/.rubocop.yml", ".config/rubocop", ".bundle"}
	if name == Full {
		return []Rule{
			{Program: "python3", Shape: "FILE ..."}, {Program: "python3", Shape: "-c CODE ..."}, {Program: "python3", Shape: "-m WORD ..."},
			{Program: "pytest", Shape: "..."}, {Program: "mypy", Shape: "FILE"},
			{Program: "node", Shape: "FILE ..."}, {Program: "npm", Shape: "..."}, {Program: "npx", Shape: "..."},
			{Program: "ruby", Shape: "FILE ..."}, {Program: "ruby", Shape: "-c FILE"}, {Program: "bundle", Shape: "..."}, {Program: "rspec", Shape: "..."}, {Program: "rake", Shape: "..."},
			{Program: "rubocop", Shape: "FILE", Globs: true},
			{Program: "go", Shape: "WORD ..."}, {Program: "gofmt", Shape: "-w FILE.go"},
			{Program: "bash", Shape: "FILE.sh"},
			{Program: "make", Shape: "..."}, {Program: "cargo", Shape: "..."}, {Program: "tsc", Shape: "..."}, {Program: "gcc", Shape: "..."}, {Program: "git", Shape: "..."},
		}
	}
	return []Rule{
		{Program: "python3", Shape: "--version"}, {Program: "python3", Shape: "-V"},
		{Program: "python3", Shape: "-m py_compile FILE", Env: python, Caches: pycache},
		{Program: "python3", Shape: "-I -m py_compile FILE", Env: python, Caches: pycache},
		{Program: "ruff", Shape: "check", Env: ruff}, {Program: "ruff", Shape: "check FILE...", Env: ruff},
		{Program: "mypy", Shape: "FILE", Env: mypy, Absent: mypyFiles, Why: "mypy runs the plugins that it names", Try: "mypy --config-file= FILE"},
		{Program: "mypy", Shape: "--config-file= FILE", Env: mypy},
		{Program: "pyflakes", Shape: "FILE", Env: python},
		{Program: "node", Shape: "--version"}, {Program: "node", Shape: "-v"}, {Program: "npm", Shape: "--version"},
		{Program: "ruby", Shape: "--version"}, {Program: "ruby", Shape: "-v"},
		{Program: "bundle", Shape: "--version", Env: append(slices.Clone(bundler), "BUNDLE_VERSION=system"), Absent: []string{".bundle"}, Why: "bundle runs the bundler that it leads to"},
		{Program: "rubocop", Shape: "FILE", Env: rubocop, Absent: rubocopFiles, Why: "rubocop runs what its configuration requires, and the plugins of bundler's that .bundle lists",
			Try: "rubocop --force-default-config FILE", Plain: true, Globs: true},
		{Program: "rubocop", Shape: "--force-default-config FILE", Env: rubocop, Absent: []string{".rubocop", ".bundle"},
			Why: "rubocop takes further options from .rubocop, and runs the plugins of bundler's that .bundle lists", Globs: true},
		{Program: "go", Shape: "version", Env: vet}, {Program: "go", Shape: "vet", Env: vet},
		{Program: "go", Shape: "vet PACKAGE...", Env: vet}, {Program: "go", Shape: "vet FILE.go...", Env: vet},
		{Program: "gofmt", Shape: "-l FILE.go"}, {Program: "gofmt", Shape: "-d FILE.go"},
		{Program: "ls"}, {Program: "ls", Shape: "-la"}, {Program: "ls", Shape: "FILE"},
		{Program: "cat", Shape: "FILE"},
		{Program: "head", Shape: "FILE"}, {Program: "head", Shape: "-N FILE"}, {Program: "head", Shape: "-n N FILE"},
		{Program: "grep", Shape: "WORD FILE..."}, {Program: "grep", Shape: "-[EFHLchilnorsvwx] WORD FILE..."},
		{Program: "rg", Shape: "WORD", Env: rg}, {Program: "rg", Shape: "WORD FILE...", Env: rg},
		{Program: "rg", Shape: "-[FHNSchilnosvwx] WORD", Env: rg}, {Program: "rg", Shape: "-[FHNSchilnosvwx] WORD FILE...", Env: rg},
		{Program: "find", Shape: "FILE"}, {Program: "find", Shape: "FILE -name WORD"}, {Program: "find", Shape: "FILE -iname WORD"}, {Program: "find", Shape: "FILE -path WORD"},
		{Program: "find", Shape: "FILE -type WORD"}, {Program: "find", Shape: "FILE -type WORD -name WORD"}, {Program: "find", Shape: "FILE -maxdepth N"},
		{Program: "find", Shape: "FILE -maxdepth N -name WORD"}, {Program: "find", Shape: "FILE -maxdepth N -type WORD"},
		{Program: "wc", Shape: "FILE..."}, {Program: "wc", Shape: "-[Lclmw] FILE..."},
		{Program: "diff", Shape: "FILE FILE", Plain: true, Why: inDirectories}, {Program: "diff", Shape: "-[BNabiqsuw] FILE FILE", Plain: true, Why: inDirectories},
		{Program: "stat", Shape: "FILE..."}, {Program: "stat", Shape: "-c WORD FILE..."},
		{Program: "sort", Shape: "FILE..."}, {Program: "sort", Shape: "-[Vbdfghnru] FILE..."},
		{Program: "git", Shape: "--version", Env: git},
		{Program: "git", Shape: "log", Env: git}, {Program: "git", Shape: "log --oneline", Env: git}, {Program: "git", Shape: "log -n N", Env: git},
		{Program: "git", Shape: "log --oneline -n N", Env: git}, {Program: "git", Shape: "log --oneline WORD", Env: git},
		{Program: "git", Shape: "show --no-ext-diff --no-textconv", Env: git}, {Program: "git", Shape: "show --no-ext-diff --no-textconv WORD", Env: git},
		{Program: "git", Shape: "diff --no-ext-diff --no-textconv --cached", Env: git}, {Program: "git", Shape: "diff --no-ext-diff --no-textconv WORD WORD", Env: git},
	}
}

// inDirectories is why diff takes no directories.
const inDirectories = "diff follows the symlinks in it, wherever they lead"

// quietGit are the variables by which git runs nothing that a repository names, with options that leave alone the files of the working tree.
func quietGit() []string {
	settings := []string{"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "log.showSignature=false", "format.pretty=medium", "gpg.program=false",
		"gpg.openpgp.program=false", "gpg.x509.program=false", "gpg.ssh.program=false", "protocol.allow=never", "submodule.recurse=false", "diff.submodule=short"}
	env := []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=",
		"GIT_NO_LAZY_FETCH=1", fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings))}
	for i, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// known says what is wrong with arguments that are often asked for. It only explains: what no rule names is refused in any case. An argument
// is meant with "=" and a value, too; "FILE" is any word that is no option.
var known = []struct {
	program string
	words   []string
	why     string
}{
	{"python3", []string{"-c"}, "it runs the code that follows"},
	{"python3", []string{"-m"}, "a module's package runs before it reads its arguments"},
	{"python3 -m", []string{"FILE"}, "a module's package runs before it reads its arguments"},
	{"python3", []string{"-"}, "it runs what standard input says"},
	{"python3", []string{"FILE"}, "it runs that file, whatever arguments follow"},
	{"node", []string{"-e", "--eval", "-p", "--print", "-pe", "-i"}, "it runs the code that follows"},
	{"node", []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file"}, "it runs, or is configured by, the file that follows"},
	{"node", []string{"FILE"}, "it runs that file, whatever arguments follow"},
	{"npm", []string{"FILE"}, "npm's commands run scripts and hooks of the package"},
	{"ruby", []string{"-e", "-n", "-p"}, "it runs the code that follows"},
	{"ruby", []string{"-r", "-I", "-x", "-C", "-S"}, "it runs, or looks for, files of the caller's choice"},
	{"ruby", []string{"-c"}, "the file's first line can have ruby load code before it reads on, as #!ruby -I. and a coding of the file's own do"},
	{"ruby", []string{"FILE"}, "it runs that file, whatever arguments follow"},
	{"bundle", []string{"FILE"}, "bundle's commands run the Gemfile, which is code"},
	{"go", []string{"run", "test", "build", "install", "generate", "tool", "get", "mod", "env", "work"}, "it builds, runs, fetches or writes"},
	{"go", []string{"-C"}, "it would start in another directory"},
	{"go", []string{"-vettool", "-toolexec", "-exec"}, "it names a program to run"},
	{"go", []string{"-overlay", "-modfile", "-modcacherw", "-pkgdir"}, "it replaces files of the build by others"},
	{"gofmt", []string{"-w", "-cpuprofile"}, "it writes"},
	{"ruff", []string{"--fix", "--fix-only", "--unsafe-fixes", "--add-noqa", "--output-file", "-o", "-w", "--watch"}, "it writes, or does not end"},
	{"ruff", []string{"--config", "--cache-dir", "--stdin-filename"}, "it leads to files that nobody has checked"},
	{"ruff", []string{"format", "clean", "server", "FILE"}, "only check reads and no more"},
	{"mypy", []string{"--config-file", "--python-executable", "--custom-typeshed-dir", "--install-types"}, "it runs, or is configured by, what it names"},
	{"mypy", []string{"-m", "-p", "-c", "--module", "--package", "--command"}, "it does not name a file"},
	{"rubocop", []string{"-r", "--require", "-c", "--config", "--plugin", "-f", "--format"}, "it runs what it names"},
	{"rubocop", []string{"-a", "-A", "-x", "--autocorrect", "--autocorrect-all", "--fix-layout", "--auto-gen-config", "-o", "--out"}, "it writes"},
	{"grep", []string{"-f", "--file", "-R", "--include-from"}, "it leads to files that nobody has checked"},
	{"rg", []string{"--pre", "--hostname-bin", "-z", "--search-zip"}, "it runs another program"},
	{"rg", []string{"-f", "--file", "-L", "--follow", "--ignore-file"}, "it leads to files that nobody has checked"},
	{"find", []string{"-exec", "-execdir", "-ok", "-okdir"}, "it runs another program"},
	{"find", []string{"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}, "it deletes, or writes"},
	{"find", []string{"-L", "-H", "-follow", "-files0-from"}, "it leads to files that nobody has checked"},
	{"sort", []string{"-o", "--output", "-T", "--temporary-directory"}, "it writes"},
	{"sort", []string{"--compress-program"}, "it runs another program"},
	{"diff", []string{"-l", "--paginate"}, "it runs another program"},
	{"wc", []string{"--files0-from"}, "it leads to files that nobody has checked"},
	{"git", []string{"status", "diff"}, "it compares the working tree, for which git runs the filters that the repository names; diff with --no-ext-diff --no-textconv and --cached, or two commits, compares what is stored"},
	{"git diff", []string{"FILE", "--stat", "--name-only"}, "it compares the working tree, for which git runs the filters that the repository names; write --no-ext-diff --no-textconv, and --cached or two commits"},
	{"git show", []string{"FILE", "--stat"}, "it runs what the repository names for diffs; write --no-ext-diff --no-textconv before it"},
	{"git", []string{"show"}, "it runs what the repository names for diffs, without --no-ext-diff --no-textconv"},
	{"git", []string{"-c", "--exec-path", "--git-dir", "--work-tree", "-C", "-p", "--paginate", "--config-env", "--namespace", "--super-prefix"}, "it leads elsewhere, or to a program to run"},
	{"git log", []string{"-p", "--patch", "--ext-diff", "--textconv", "--show-signature", "--format", "--pretty", "-S", "-G", "--output"}, "it runs what the repository names, or writes"},
	{"git", []string{"FILE"}, "it changes the repository, or runs what that names"},
	{"bash", []string{"-c"}, "it would be a shell for a string; put the script into a file"},
}

// notForUs says why a program is in no built-in rule, where that is known.
func notForUs(program string) string {
	switch program {
	case "sh", "bash", "dash", "zsh":
		return "a shell runs whatever it is told"
	case "env", "xargs", "sudo", "timeout", "nice":
		return "it runs another program"
	case "awk", "perl":
		return "it runs code"
	case "sed":
		return "it can write, and run other programs"
	}
	return ""
}
