package result

// Verdict is how a run ended, in one word.
type Verdict string

// The verdicts.
const (
	OK            Verdict = "ok"             // the command ended with status 0
	Exit          Verdict = "exit"           // with another status
	Signal        Verdict = "signal"         // killed by a signal
	Timeout       Verdict = "timeout"        // its time was up
	CPU           Verdict = "cpu"            // killed at its limit on CPU time
	FileSize      Verdict = "file-size"      // killed at its limit on file size
	Memory        Verdict = "memory"         // failed, and the kernel had killed for want of memory in its cgroup
	Pids          Verdict = "pids"           // failed, and had been refused processes at the limit of its cgroup
	Output        Verdict = "output"         // it had written more than it may, and was ended, or than could be passed on
	Interrupted   Verdict = "interrupted"    // ended because nsrun was asked to end, at once or after its grace
	Lost          Verdict = "lost"           // it has run, or may have; how it ended is not known
	NotFound      Verdict = "not-found"      // there is no such command
	NotExecutable Verdict = "not-executable" // it cannot be executed
	Setup         Verdict = "setup"          // the sandbox could not be made
	Refused       Verdict = "policy"         // the policy cannot be enforced here, or is wrong
)

// Verdicts lists them all.
var Verdicts = []Verdict{OK, Exit, Signal, Timeout, CPU, FileSize, Memory, Pids, Output, Interrupted, Lost, NotFound, NotExecutable, Setup, Refused}

// VerdictRow describes a verdict: its exit code, and the evidence for it.
type VerdictRow struct {
	Verdict        Verdict
	Code, Evidence string
}

// VerdictTable has them all, in the order of [Verdicts].
var VerdictTable = []VerdictRow{
	{OK, "0", "it ended by itself with status 0"},
	{Exit, "its own", "it ended by itself with another status"},
	{Signal, "128+n", "signal n killed it"},
	{Timeout, "124", "its time was up"},
	{CPU, "152 or 137", "the kernel ended it at that limit: SIGXCPU, or SIGKILL with the CPU time used up; of a child behind a shell that is an " +
		"exit with 152"},
	{FileSize, "153", "the kernel ended it at that limit: SIGXFSZ; of a child behind a shell that is an exit with 153"},
	{Memory, "its own or 128+n", "it failed, and its cgroup had killed for want of memory; without a cgroup such a failure is an exit"},
	{Pids, "its own or 128+n", "it failed, and its cgroup had refused a process; without a cgroup such a failure is an exit"},
	{Output, "never 0", "it wrote more than it may, or more than could be passed on"},
	{Interrupted, "128+n", "nsrun was asked to end by signal n, SIGTERM or SIGINT, and the command died of that, or was killed after its grace"},
	{Lost, "255", "it has run, or may have; how it ended could not be learnt, and it was killed if it had not ended"},
	{NotFound, "127", "it has not run: there is no such program"},
	{NotExecutable, "126", "it has not run: it cannot be executed"},
	{Setup, "125", "it has not run: a step on the way to it failed"},
	{Refused, "125", "it has not run: the policy is wrong, does not allow it, or cannot be enforced here"},
}

// Exit codes of nsrun itself, beside the command's own and 128+n for signal n.
const (
	CodeTimeout       = 124
	CodeFailed        = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeLost          = 255
)
