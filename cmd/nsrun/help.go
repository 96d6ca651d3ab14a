package main

import (
	"fmt"
	"strings"
)

// usage is the help on no verb.
func usage() string {
	var out strings.Builder
	out.WriteString("nsrun runs a command in a Linux sandbox: namespaces, a private root, Landlock, seccomp, limits.\n\n")
	line := func(words, does string) { fmt.Fprintf(&out, "  nsrun %-29s %s\n", words, does) }
	for _, v := range verbs() {
		if v.does != "" {
			line(strings.TrimSpace(v.name+" "+v.args), v.does)
		}
	}
	for _, t := range topics {
		line("help "+t.name, t.does)
	}
	out.WriteString("\n" + usageTail())
	return out.String()
}

// usageTail is what the usage says of a run without flags.
func usageTail() string {
	return wrap("With no flags the command sees the system's programs and the working directory read-only, an empty /tmp, "+
		"no network, and nothing of the environment but locale, terminal and time zone.", 104)
}

func helpTexts() map[string]string {
	all := map[string]string{}
	for _, v := range verbs() {
		all[v.name] = v.help
		if v.flags != nil {
			all[v.name] = strings.Replace(v.help, "FLAGS\n", flagLines(v.flags())+"\n", 1)
		}
	}
	all["help"] = usage()
	return all
}

const runHelp = `nsrun run [flags] -- CMD ARG...

Runs CMD in a sandbox. Its standard input, output, error, exit code and signals are as if it ran without.

FLAGS
Exit codes: the command's own; 128+n if signal n killed it; 124 time is up; 125 nsrun refused or failed and
the command has not run; 126 the command cannot be executed; 127 it is not found; 255 it may have run, and
how it ended is not known.

Variables: NSRUN_FALLBACK and NSRUN_REQUIRE are as --fallback and --require; NSRUN_SANDBOX=0 (off, no, false)
runs the command without a sandbox, and says so; NSRUN_CEILING names a ceiling, NSRUN_AUDIT an audit log.

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

Exit codes: 0; 125 run would be refused, or a look at this host shows that it would fail; 127 there is certainly
no such program inside. The error on stderr is run's. If a look at this host finds it, the plan is printed, too.

FLAGS
Examples:
  nsrun plan --workspace . -- make
  nsrun plan --manifest agent.json --syscalls -- python3 tool.py
`

const wrapHelp = `nsrun wrap [--json | --null] [flags of run] -- [CMD ARG...]

Prints the argv that a program in any language hands to its own subprocess call: this program's absolute path,
"run", the flags, "--", and CMD. Without CMD it ends with "--", and the caller appends a command of its own.
What run would refuse is refused here, with the same message: exit code 125, and nothing on stdout.

Paths in flags are made absolute, so that the argv works from any working directory; --chdir is a path inside
and stays. The rest is looked at when the argv is run, and is its caller's: without --manifest or --workspace
the working directory of then is shown read-only, not that of wrap; files that are granted, what the manifest
and ceilings say, variables (--env NAME and those of nsrun help run), and the descriptor of --result.

FLAGS
Examples:
  nsrun wrap --manifest agent.json --result FD:3 --     a prefix for commands
  nsrun wrap --workspace . -- make test
  nsrun wrap --null --ro ~/notes -- ls ~/notes | xargs -0 env     the same as nsrun run --ro ~/notes ...
`

const doctorHelp = `nsrun doctor [--all] [--json] [--require LIST] [--manifest FILE] [--self-test]     (also: nsrun probe)

Says first whether this host can enforce the default policy. If not, each cause is named once, with the one
action against it and the features that it takes away. If it can, a sandbox is started that tries what must
fail. Then a line for each group of features, and what else is missing that would be of use. Each feature is
really used, in children that end at once and leave nothing behind. Exit codes: 0 it can, 1 it cannot, 125 wrong
usage.

FLAGS
What several of them ask for must all be there.

Examples:
  nsrun doctor
  nsrun doctor --require user_namespace,landlock && echo ready
  nsrun doctor --manifest agent.json
  nsrun doctor --apparmor-profile | sudo tee /etc/apparmor.d/nsrun
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

const schemaHelp = `nsrun schema NAME     print the JSON Schema of what nsrun reads or writes

  manifest   what --manifest takes
  ceiling    what --ceiling takes
  result     what --result writes
  session    the lines of nsrun session, both ways

Example:
  nsrun schema result > result.schema.json
`

const seccompHelp = `nsrun seccomp list                                 the built-in filters
nsrun seccomp show [flags] NAME                    which system calls one lets through, and its program
nsrun seccomp diff [--arch ARCH] NAME OTHER        which calls only one of them lets through: - NAME, + OTHER
nsrun seccomp compile -o FILE [flags] NAME|F.json  write it as raw BPF, for nsrun run --seccomp on any machine

FLAGS
The program decides by a call's number and arguments; a comment beside a comparison names the call. A profile
in the JSON of Docker and the OCI runtimes (a name that ends in .json) takes a build with libseccomp:
CGO_ENABLED=1 go build -tags libseccomp ./cmd/nsrun. What it compiles any build can use:
nsrun run --seccomp off --seccomp ./filter.bpf is that filter alone; without off, beside the default one.

Examples:
  nsrun seccomp show build
  nsrun seccomp show --deny ptrace --arch arm64 build
  nsrun seccomp diff default build
  nsrun seccomp compile -o ./compute.bpf compute
`

const bwrapHelp = `nsrun bwrap [OPTIONS...] [--] CMD ARG...     (also: under the name bwrap)

Takes the command line of bubblewrap 0.13.1 and does what it would do: the same options, messages, exit codes,
descriptors and JSON documents. nsrun bwrap --help lists them. It confines as much as its options say and no
more: nothing of nsrun's own policy is added, unless the operator sets

  NSRUN_BWRAP_LAYERS=landlock,seccomp,limits=NAME=NUMBER   words separated by commas, or @FILE (an absolute
                          path) with such words, also one a line, and # comments
        landlock          rights on files as the mounts grant them
        seccomp=FILTER    nsrun's filter default (also without a name), compute, network or build,
                          beside the command line's
        limits=...        one limit of nsrun run's --limit, but tmpfs_mb; once more for each further one

A layer that this host cannot enforce or that is misspelt, and a value without any, refuse the run. It counts
for callers that leave the variable alone.

Example:
  nsrun bwrap --ro-bind / / --dev /dev --unshare-all -- ls /
`

const statusHelp = `nsrun status [--json]     say whether runs are sandboxed here and now, and by which backend

For each backend that --backend can name: whether it can carry out the default policy on this host, where it
is, its version, and the guarantees that it does not give in full. A bwrap that is nsrun itself is passed over.

FLAGS
Variables that count here and in run: NSRUN_SANDBOX (0, off, no, false: no sandbox), NSRUN_FALLBACK (strict,
degrade), NSRUN_REQUIRE (guarantees), NSRUN_CEILING (a file). A ceiling is over all of them.

Examples:
  nsrun status
  nsrun status --json | jq -e .active
`

const auditHelp = `nsrun audit show [flags] FILE     print the runs that an audit log records, one a line
nsrun audit verify [flags] FILE   check that no row was changed, taken out or put in

Logs are kept by --audit FILE of run and session, the key audit of manifests, and NSRUN_AUDIT. Each run has a
row when it starts and one when it has ended; the next start records a run whose nsrun was killed as aborted.
Arguments that look like secrets are replaced; of variables there are only names.

FLAGS
verify names the first line that is wrong, and prints the number of rows and the hash of the last. A log that
was cut off at its end looks whole, and so does one whose hashes somebody who can write the file has computed
anew: both show with a number and a hash that were kept elsewhere, however much the log has grown since. Exit
codes: 0 whole, 1 not, 125 it cannot be read.

Examples:
  nsrun audit show --since 24h --verdict policy ~/audit.jsonl
  nsrun audit verify ~/audit.jsonl
  nsrun audit verify --rows 40 --head "$HEAD" ~/audit.jsonl
`

const installHelp = `nsrun install-bwrap DIR     make a symlink DIR/bwrap to this program

Programs that call bwrap find it if DIR comes before bubblewrap's directory in their PATH. The symlink leads to
where this program lies now. Nothing that is there already is replaced; remove the symlink to undo it.

Example:
  nsrun install-bwrap ~/.local/bin
`
