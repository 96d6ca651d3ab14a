// Command nsrun runs a command in a Linux sandbox, says what it would do, and what this host can enforce.
//
//	nsrun run --workspace . -- make test
//	nsrun plan --workspace . -- make test # what that would do
//
// Called as bwrap it behaves like bubblewrap: see package bwrap. A file for each verb reads its flags; package runner does the work, and
// help.go has the texts that nsrun help prints.
//
// nsrun does not protect against bugs of the kernel that the allowed system calls can reach, or against the abuse of what was granted: see
// doc/security.md.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// version is set by the linker for releases.
var version = "0.1.0-dev"

// app is what the verbs work with: the world outside, so that nothing else reaches for it.
type app struct {
	stdout, stderr io.Writer
	environ        []string
}

// verb is one subcommand: its name, its arguments and what it does as the usage shows them, its help, the flags that stand in that, and the words
// that its first argument can be.
type verb struct {
	name, args, does string
	run              func(*app, []string) int
	help             string
	flags            func() []flagRow
	words            func() []string
}

func verbs() []verb {
	var f flags
	var planned planFlags
	var wrapped wrapFlags
	var diagnosis doctorFlags
	var logs auditFlags
	var filter seccompFlags
	var served sessionFlags
	var here statusFlags
	var kept homeFlags
	var preset toolFlags
	var refusals explainFlags
	forPlan := func() []flagRow { return slices.Concat(planned.own(), f.rows()) }
	return []verb{
		{"run", "[flags] -- CMD ARG...", "run CMD", (*app).run, runHelp, f.runRows, nil},
		{"plan", "[flags] -- CMD ARG...", "print what that would do, and change nothing", (*app).plan, planHelp, forPlan, nil},
		{"wrap", "[flags] -- [CMD ARG...]", "print the argv of run, for a program's own subprocess call", (*app).wrap, wrapHelp, wrapped.rows, nil},
		{"explain", "[--json] FILE", "print what the result of a run says was refused, and what would allow it", (*app).explain, explainHelp, refusals.rows, nil},
		{"doctor", "[--json]", "say what this host can enforce", (*app).doctor, doctorHelp, diagnosis.rows, nil},
		{"probe", "", "", (*app).doctor, doctorHelp, diagnosis.rows, nil},
		{"bwrap", "[OPTIONS...] CMD ARG...", "the command line of bubblewrap, as under the name bwrap", (*app).bwrap, bwrapHelp, nil, nil},
		{"install-bwrap", "DIR", "make that name: a symlink DIR/bwrap to this program", (*app).installBwrap, installHelp, nil, nil},
		{"manifest", "check FILE...", "check manifests; also: manifest schema", (*app).manifest, manifestHelp, nil, list("check", "schema")},
		{"seccomp", "show NAME", "print which system calls a filter lets through, and how", (*app).seccomp, seccompHelp, filter.rows,
			list("list", "show", "diff", "compile")},
		{"session", "", "keep sandboxes open for a program: JSON on stdin and stdout", (*app).session, sessionHelp, served.rows, nil},
		{"commands", "check -- CMD ARG...", "check CMD by command rules; also: commands list, commands show NAME", (*app).commands, commandsHelp, f.commandsRows,
			list("check", "list", "show")},
		{"audit", "show|verify FILE", "what an audit log records, and whether it is whole", (*app).audit, auditHelp, logs.rows, list("show", "verify")},
		{"home", "list|rm", "list the home directories that --home keep keeps, and remove them", (*app).home, homeHelp, kept.rows, list("list", "rm")},
		{"tool", "list|show NAME", "list the presets of --tool, and print what one adds", (*app).tool, toolHelp, preset.rows, list("list", "show")},
		{"schema", "NAME", "print a JSON Schema: of a manifest, ceiling, result or session", (*app).schema, schemaHelp, nil, schemaNames},
		{"status", "[--json]", "say which backends there are", (*app).status, statusHelp, here.rows, nil},
		{"completion", "bash|zsh|fish", "print a script that completes nsrun's command lines", (*app).completion, completionHelp, nil, shellNames},
		{"man", "[VERB]", "print a manual page: of nsrun, or of a verb", (*app).man, manHelp, nil, verbNames},
		{"version", "", "print the version; also: nsrun -v, nsrun --version", (*app).version, versionHelp, nil, nil},
		{"help", "VERB", "flags and examples; also: nsrun VERB --help", (*app).help, "", nil, helpNames},
	}
}

// list returns a function that returns the words.
func list(words ...string) func() []string { return func() []string { return words } }

// verbNames lists them but for other names of the same.
func verbNames() (names []string) {
	for _, v := range verbs() {
		if v.name != "probe" {
			names = append(names, v.name)
		}
	}
	return names
}

// A process is looked at from outside by its first thread, which stands for it in /proc. Main runs on that thread here, and has to stay on it where
// the verb bwrap changes its name, or root's bubblewrap gives its capabilities up. With GOMAXPROCS=1, which the entry point sets, it nearly always
// stays by itself (otherwise giveUp of package backend asks all threads), and saves the thread that Go starts for a lock (100 us).
func init() {
	if len(os.Args) > 1 && os.Args[1] == "bwrap" || runtime.GOMAXPROCS(0) > 1 && os.Geteuid() == 0 && isBwrap(os.Args) {
		runtime.LockOSThread()
	}
}

// onOneProcessor means that the entry point has set GOMAXPROCS=1, which is too little for what serves much at a time.
var onOneProcessor bool

func main() {
	for _, name := range entry.Inserted() {
		os.Unsetenv(name)
		onOneProcessor = onOneProcessor || name == "GOMAXPROCS"
	}
	runner.Init()
	a := &app{stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	if isBwrap(os.Args) {
		leave(a.bubblewrap(os.Args[0], os.Args[1:]))
	}
	leave(a.main(os.Args[1:]))
}

// leave ends this process. What the entry point has started ahead, and nobody has used, ends before.
func leave(code int) {
	entry.EndAhead()
	os.Exit(code)
}

func (a *app) main(args []string) int {
	if err := refusePrivilege(); err != nil {
		return a.fail(err)
	}
	if len(args) == 0 {
		fmt.Fprint(a.stderr, usage())
		return result.CodeFailed
	}
	name := args[0]
	switch name {
	case nothingVerb:
		return 0
	case "exec-stages":
		return a.execStages(args[1:])
	case "container-init":
		return a.containerInit(args[1:])
	case "-h", "--help":
		name = "help"
	case "-v", "--version":
		name = "version"
	}
	all := verbs()
	i := slices.IndexFunc(all, func(v verb) bool { return v.name == name })
	if i < 0 {
		return a.fail(unknownVerb(args))
	}
	if !strings.Contains(all[i].args, "CMD") && asksHelp(args[1:]) { // else it may be a word of the command
		return a.print(helpTexts()[name])
	}
	return all[i].run(a, args[1:])
}

// fail prints an error, one or two lines, and returns the exit code for it.
func (a *app) fail(err error) int {
	if errors.Is(err, errHelp) {
		return 0
	}
	text := strings.ReplaceAll(strings.TrimRight(printable(err.Error()), "\n"), "\n", "\nnsrun: ")
	fmt.Fprintf(a.stderr, "nsrun: %s\n", text)
	result := runner.Failure(err)
	if result.Hint != "" {
		fmt.Fprintf(a.stderr, "  hint: %s\n", printable(result.Hint))
	}
	return result.Code
}

// nothingVerb is not for people: a command that does nothing, for doctor to start.
const nothingVerb = "do-nothing"

// printable takes control characters out of text that may hold a stranger's words: CVE-2023-28101.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// printed prints the text that a function has returned, or its error.
func (a *app) printed(text string, err error) int {
	if err != nil {
		return a.fail(err)
	}
	return a.print(text)
}

// indented is a value as JSON for people, too.
func indented(v any) (string, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return string(data) + "\n", err
}

// print writes to stdout and tells when that failed.
func (a *app) print(text string) int {
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return a.fail(err)
	}
	return 0
}

func (a *app) version(args []string) int {
	fs := newFlags("version")
	if err := a.parseAll(fs, args); err != nil {
		return a.fail(err)
	}
	return a.print(fmt.Sprintf("nsrun %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version()))
}

func (a *app) help(args []string) int {
	if len(args) == 0 {
		return a.print(usage())
	}
	if len(args) > 1 {
		return a.fail(fmt.Errorf("help takes one verb or topic, got also %q", args[1]))
	}
	for _, t := range topics {
		if t.name == args[0] {
			return a.print(t.text())
		}
	}
	text, ok := helpTexts()[args[0]]
	if near, found := policy.Nearest(args[0], helpNames()); !ok && found {
		return a.fail(fmt.Errorf("there is no help on %q; did you mean nsrun help %s?", args[0], near))
	}
	if !ok {
		return a.fail(fmt.Errorf("there is no help on %q; there is on %s", args[0], strings.Join(helpNames(), ", ")))
	}
	return a.print(text)
}

// helpNames are the verbs and topics that there is help on.
func helpNames() []string {
	names := verbNames()
	for _, t := range topics {
		names = append(names, t.name)
	}
	return names
}
