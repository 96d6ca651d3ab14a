package main

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/nsrun/plan"
)

const usage = `nsrun runs a command in a Linux sandbox: namespaces, a private root, Landlock, seccomp, limits.

  nsrun run [flags] -- CMD ARG...     run CMD
  nsrun plan [flags] -- CMD ARG...    print what that would do, and change nothing
  nsrun doctor [--json]               say what this host can enforce
  nsrun bwrap [OPTIONS...] CMD ARG... the command line of bubblewrap, as under the name bwrap
  nsrun install-bwrap DIR             make that name: a symlink DIR/bwrap to this program
  nsrun manifest check FILE...        check manifests
  nsrun manifest schema               print their JSON Schema
  nsrun status [--json]               say which engines there are
  nsrun version
  nsrun help VERB                     flags and examples
  nsrun help guarantees               what each promises, and which engines give it

With no flags the command sees the system's programs and the working directory read-only, an empty /tmp,
no network, and nothing of the environment but locale, terminal and time zone.
`

func helpTexts() map[string]string {
	return map[string]string{"run": runHelp, "plan": planHelp, "doctor": doctorHelp, "probe": doctorHelp, "manifest": manifestHelp,
		"version": versionHelp, "help": usage, "bwrap": bwrapHelp, "install-bwrap": installHelp,
		"status": statusHelp}
}

const runFlags = `  --manifest FILE        policy, JSON or YAML; the flags below add to it
  --ro PATH              show PATH read-only (repeat)
  --rw PATH              show PATH writable (repeat)
  --workspace DIR        show DIR writable and start in it
  --socket PATH          show one Unix socket (repeat)
  --chdir DIR            start in DIR, a path inside
  --net none|host        network (default none: only a loopback of its own)
  --env NAME             pass the caller's variable, unless its name looks like a secret's (repeat)
  --setenv NAME=VALUE    set a variable (repeat)
  --timeout DURATION     end the run after so long: SIGTERM, and SIGKILL after --kill-grace
                         (default: none; 30s with a manifest; 0 for none)
  --kill-grace DURATION  time between SIGTERM and SIGKILL (default 2s)
  --limit NAME=VALUE     memory_mb, pids, cpu_seconds, file_size_mb, open_files, core, address_space_mb,
                         stack_mb, locked_mb, tmpfs_mb (repeat)
  --seccomp PROFILE      default, compute, network, off, or the path of a raw BPF file (beside the default)
  --seccomp-deny NAME    refuse one more system call (repeat)
  --no-landlock          leave Landlock out
  --hostname NAME        (default sandbox)
  --uid N, --gid N       ids inside (default the caller's)
  --fallback degrade     run without what this host cannot enforce, by the strongest engine that works, and
                         say so (default strict)
  --backend NAME         auto (native, or with degrade the strongest that works), native, bwrap, docker
                         (or Podman), landlock (no namespaces), none (no sandbox); nsrun status has what
                         each of them loses
  --require LIST         guarantees that must hold whatever the engine and the fallback (repeat)
  --isolation LEVEL      container (default); subprocess: no sandbox, but a process group, limits, time and
                         environment as asked for; permissive: the command as you would run it, but for time
  --self-test            have the sandbox try what must fail before it starts the command
  --ceiling FILE         cut everything down to this operator's ceiling; /etc/nsrun/ceiling.json and
                         NSRUN_CEILING always count
  -t, --tty              give the command a terminal of its own
  -v, --verbose          print notes and the verdict on stderr
`

const runHelp = `nsrun run [flags] -- CMD ARG...

Runs CMD in a sandbox. Its standard input, output, error, exit code and signals are as if it ran without.

` + runFlags + `  --result FILE|FD:n     write the result as one line of JSON

Exit codes: the command's own; 128+n if signal n killed it; 124 time is up; 125 nsrun refused or failed and
the command has not run; 126 the command cannot be executed; 127 it is not found.

Variables: NSRUN_FALLBACK and NSRUN_REQUIRE are as --fallback and --require; NSRUN_SANDBOX=0 (off, no, false)
runs the command without a sandbox, and says so; NSRUN_CEILING names a ceiling.

Examples:
  nsrun run -- ls -la                              look around
  nsrun run --workspace . -- make test             build here, with nothing else in reach
  nsrun run --ro ~/notes --timeout 5s -- grep -r x ~/notes
  nsrun run --net host --env HTTP_PROXY -- curl -s https://example.org
  nsrun run --tty --workspace . -- bash            an interactive shell
  nsrun run --manifest agent.json --result FD:3 -- python3 tool.py 3>result.json
  nsrun run --fallback degrade --require files,network -- ./tool     wherever that is possible at all
`

const planHelp = `nsrun plan [flags of run] [--json | --syscalls | --as bwrap] [--facts FILE] -- CMD ARG...

Prints what run with the same arguments would do: every mount, namespace, Landlock right, filter, limit and
variable, and a note for everything that is not as asked. It changes nothing and needs no privilege.

  --json        the plan as JSON: all that the engine is given
  --syscalls    the system calls that it comes to, like strace
  --as bwrap    the call of bubblewrap that --backend bwrap makes, to be read (it needs descriptors that
                only nsrun sets up); on stderr what it loses
  --facts FILE  plan for the host that this output of nsrun doctor --json came from

` + runFlags + `
Examples:
  nsrun plan --workspace . -- make
  nsrun plan --manifest agent.json --syscalls -- python3 tool.py
`

const doctorHelp = `nsrun doctor [--json] [--require LIST] [--manifest FILE] [--self-test]     (also: nsrun probe)

Says first whether this host can enforce the default policy, and if not what is missing and the one action that
brings it. If it can, a sandbox is started that tries what must fail. Then feature by feature: here or not,
since which kernel, what was found, what is lost, what to do; and the same for each engine. Each feature is
really used, in children that end at once and leave nothing behind. Exit codes: 0 it can, 1 it cannot, 125 wrong
usage.

  --json           the facts as JSON, for nsrun plan --facts; the exit code is the same
  --require LIST   ask for these features of the host, or guarantees of a sandbox, instead; separated by commas
  --self-test      start a sandbox of the default policy that tries what must fail, whatever else is asked
  --manifest FILE  ask for what this manifest needs instead, under the operator's ceiling

What several of them ask for must all be there.

Examples:
  nsrun doctor
  nsrun doctor --require user_namespace,landlock && echo ready
  nsrun doctor --manifest agent.json
`

const versionHelp = `nsrun version     print the version, the platform and the Go release it was built with

Example:
  nsrun version
`

const manifestHelp = `nsrun manifest check FILE...     check manifests as run would read them; all faults at once
nsrun manifest schema            print the JSON Schema of manifests

Examples:
  nsrun manifest check examples/notes/manifest.json
  nsrun manifest schema > manifest.schema.json
`

const bwrapHelp = `nsrun bwrap [OPTIONS...] [--] CMD ARG...     (also: under the name bwrap)

Takes the command line of bubblewrap 0.13.1 and does what it would do: the same options, messages, exit codes,
descriptors and JSON documents. nsrun bwrap --help lists them. It confines as much as its options say and no
more: nothing of nsrun's own policy is added, unless the operator sets

  NSRUN_BWRAP_LAYERS=landlock,seccomp,limits=NAME=NUMBER   words separated by commas, or @FILE (an absolute
                          path) with such words, also one a line, and # comments
        landlock          rights on files as the mounts grant them
        seccomp=PROFILE   nsrun's filter default (also without a name), compute or network, beside the
                          command line's
        limits=...        one limit of nsrun run's --limit, but tmpfs_mb; once more for each further one

A layer that this host cannot enforce or that is misspelt, and a value without any, refuse the run. It counts
for callers that leave the variable alone.

Example:
  nsrun bwrap --ro-bind / / --dev /dev --unshare-all -- ls /
`

const statusHelp = `nsrun status [--json]     say whether runs are sandboxed here and now, and by which engine

For each engine that --backend can name: whether it can carry out the default policy on this host, where it
is, its version, and the guarantees that it does not give in full. A bwrap that is nsrun itself is passed over.

Variables that count here and in run: NSRUN_SANDBOX (0, off, no, false: no sandbox), NSRUN_FALLBACK (strict,
degrade), NSRUN_REQUIRE (guarantees), NSRUN_CEILING (a file). A ceiling is over all of them.

Examples:
  nsrun status
  nsrun status --json | jq -e .active
`

const installHelp = `nsrun install-bwrap DIR     make a symlink DIR/bwrap to this program

Programs that call bwrap find it if DIR comes before bubblewrap's directory in their PATH. The symlink leads to
where this program lies now. Nothing that is there already is replaced; remove the symlink to undo it.

Example:
  nsrun install-bwrap ~/.local/bin
`

// guaranteesHelp prints the table of guarantees.
func guaranteesHelp() string {
	var out strings.Builder
	out.WriteString("The guarantees that --require, \"require\" and NSRUN_REQUIRE may name, what holds, and which engines give each in full\nat best; nsrun status says what is so here.\n")
	for _, t := range plan.Traits {
		var give []string
		for i, cell := range t.Engines {
			if cell.Grade == plan.Carried {
				give = append(give, plan.Engines()[i])
			}
		}
		fmt.Fprintf(&out, "\n  %s: %s\n", t.Name, strings.Join(give, " "))
		for line := range strings.Lines(wrap(t.Promise, 104)) {
			fmt.Fprintf(&out, "      %s", line)
		}
	}
	return out.String()
}

// wrap breaks a text into lines of at most so many characters.
func wrap(text string, most int) string {
	var out strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case width == 0:
		case width+1+len(word) > most:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String() + "\n"
}
