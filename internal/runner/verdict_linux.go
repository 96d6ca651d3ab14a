package runner

import (
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

func ended(p *plan.Plan, out backend.Outcome) result.Result {
	return endedWith(p, receipt(p, out), out)
}

// endedWith makes a result of how a command has ended.
func endedWith(p *plan.Plan, from result.Receipt, out backend.Outcome) result.Result {
	milliseconds := func(t unix.Timeval) float64 { return float64(t.Nano()) / 1e6 }
	r := result.Result{Version: 1, Started: out.Started.UTC().Format(time.RFC3339Nano), WallMS: float64(out.Wall.Microseconds()) / 1e3,
		UserMS: milliseconds(out.Usage.Utime), SystemMS: milliseconds(out.Usage.Stime), MaxRSSKiB: out.Usage.Maxrss,
		PeakKiB: out.Evidence.PeakBytes >> 10, PeakPids: out.Evidence.PeakPids, Receipt: from}
	count(&r, out)
	if out.Usage.Maxrss == 0 { // no process has so little
		r.Receipt.Notes = append(slices.Clone(r.Receipt.Notes), unknownUsage)
	}
	if out.Status.Signaled() {
		sig := out.Status.Signal()
		r.Signal, r.Verdict = unix.SignalName(sig), result.Signal
	} else {
		status := out.Status.ExitStatus()
		r.ExitStatus, r.Verdict = &status, result.Exit
		if status == 0 {
			r.Verdict = result.OK
		}
	}
	r.Code, r.Hit, r.Receipt.Explain = exitCode(out), hit(p, out), out.Explain
	switch {
	case out.TimedOut:
		r.Verdict = result.Timeout
	case r.Cut:
		r.Verdict = result.Output
	case out.Killed != 0:
		r.Verdict = result.Interrupted
	case r.Verdict != result.OK:
		r.Verdict = limited(p, out, r.Verdict)
	}
	r.Denials = denied(p, r, out)
	return r
}

// unknownUsage says that zeros of a result are no measurement. The kernel reports no usage of processes that it reaps for a killed pid 1
// (zap_pid_ns_processes in kernel/pid_namespace.c).
var unknownUsage = plan.Note{Feature: "result", Loss: "user_ms, system_ms and max_rss_kib are not known: the sandbox's pid 1 was killed, which reports them"}

// limited returns which limit a command that has failed came up against, by the evidence that there is, the surest first; otherwise it is what
// it is.
func limited(p *plan.Plan, out backend.Outcome, otherwise result.Verdict) result.Verdict {
	signal := unix.Signal(0)
	if out.Status.Signaled() {
		signal = out.Status.Signal()
	}
	switch {
	case signal == unix.SIGXCPU:
		return result.CPU
	case signal == unix.SIGXFSZ:
		return result.FileSize
	case out.Evidence.OOMKills > 0:
		return result.Memory
	case signal == unix.SIGKILL && usedUp(p, out.Usage):
		return result.CPU
	case out.Evidence.PidsMax > 0:
		return result.Pids
	}
	return otherwise
}

// usedUp reports whether a command has used its CPU time: one that ignores SIGXCPU is killed at the hard limit (setrlimit(2)).
func usedUp(p *plan.Plan, usage unix.Rusage) bool {
	used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	for _, l := range slices.Concat(p.Limits, p.SoftCaps) {
		if l.Name == policy.CPUSeconds {
			return used >= time.Duration(l.Soft)*time.Second
		}
	}
	return false
}

func hit(p *plan.Plan, out backend.Outcome) (limits []string) {
	for _, l := range []struct {
		name string
		n    int64
	}{{policy.MemoryMB, out.Evidence.OOMKills}, {policy.Pids, out.Evidence.PidsMax}, {policy.CPUPercent, out.Evidence.Throttled}} {
		if l.n > 0 {
			limits = append(limits, l.name)
		}
	}
	if out.Full && p.Tmpfs != (plan.Tmpfs{}) {
		limits = append(limits, policy.TmpfsMB)
	}
	if out.HomeFull {
		limits = append(limits, policy.HomeMB)
	}
	return limits
}

// lostCode is the exit code of a command that has done well, but for what it wrote: that of one that was killed for too much, or 1 as programs
// give where a disk is full.
func lostCode(out backend.Outcome) int {
	if out.Output[0].Over || out.Output[1].Over {
		return 128 + int(unix.SIGKILL)
	}
	return 1
}

// exitCode is what nsrun ends with after a command.
func exitCode(out backend.Outcome) int {
	code := out.Status.ExitStatus()
	if out.Status.Signaled() {
		code = 128 + int(out.Status.Signal())
	}
	switch {
	case out.TimedOut:
		return result.CodeTimeout
	case isCut(out):
		if code == 0 { // it ended before it could be killed, or told
			return lostCode(out)
		}
	case out.Killed != 0:
		return 128 + int(out.Killed)
	}
	return code
}

// isCut reports whether a part of the output was not passed on.
func isCut(out backend.Outcome) bool {
	return slices.ContainsFunc(out.Output[:], func(p backend.Passed) bool { return p.Over || p.Lost != "" })
}

func count(r *result.Result, out backend.Outcome) {
	for i, bytes := range []**int64{&r.StdoutBytes, &r.StderrBytes} {
		if passed := out.Output[i]; passed.Counted {
			*bytes = &passed.Bytes
		}
	}
	r.Cut = isCut(out)
}
