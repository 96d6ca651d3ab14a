package result

import "github.com/nsrun/nsrun/nsrun/plan"

// Result is how a run ended and what was on.
type Result struct {
	// Version is that of this format, 1.
	Version int `json:"version"`
	// Verdict is how it ended, in a word: see nsrun help verdicts.
	Verdict Verdict `json:"verdict"`
	// Code is the exit code that nsrun ends with.
	Code int `json:"code"`
	// ExitStatus is the command's own; not given if a signal killed it, or it has not run.
	ExitStatus *int `json:"exit_status,omitempty"`
	// Signal is the name of the signal that killed it.
	Signal string `json:"signal,omitempty"`
	// Error says why it has not run.
	Error string `json:"error,omitempty"`
	// Step is the one that failed.
	Step string `json:"step,omitempty"`
	// Hint is one action that helps.
	Hint string `json:"hint,omitempty"`
	// Unmet lists what this host, or the backend, lacks of what was asked for; nothing has run then.
	Unmet []plan.Note `json:"unmet,omitempty"`
	// Started is when, by RFC 3339.
	Started string `json:"started,omitempty"`
	// WallMS is how long it took by the clock, in milliseconds.
	WallMS float64 `json:"wall_ms"`
	// UserMS is the CPU time that its processes spent in themselves, in milliseconds. It is not known, as a note of the receipt says, and nor
	// are SystemMS and MaxRSSKiB, if the sandbox's pid 1 was killed.
	UserMS float64 `json:"user_ms"`
	// SystemMS is the CPU time that they spent in the kernel, in milliseconds.
	SystemMS float64 `json:"system_ms"`
	// MaxRSSKiB is the most memory of the largest process.
	MaxRSSKiB int64 `json:"max_rss_kib"`
	// PeakKiB is the most memory that all processes had at once, page cache and tmpfs included, where a cgroup reports it. In a session it is that
	// of the session until now.
	PeakKiB int64 `json:"peak_kib,omitempty"`
	// PeakPids is the most processes and threads that there were at once, where a cgroup reports it; in a session, that of the session until
	// now.
	PeakPids int64 `json:"peak_pids,omitempty"`
	// Hit lists the limits of the cgroup that were reached, whatever the verdict: "memory_mb", "pids", "cpu_percent"; and "tmpfs_mb" if the command
	// has left less than a 64th of the room, or of the files, that private places have together.
	Hit []string `json:"hit,omitempty"`
	// StdoutBytes counts what was passed on of standard output, where it was counted; of standard error, too, where both are one pipe.
	StdoutBytes *int64 `json:"stdout_bytes,omitempty"`
	// StderrBytes counts what was passed on of standard error, where it was counted.
	StderrBytes *int64 `json:"stderr_bytes,omitempty"`
	// Cut says that there was more than StdoutBytes and StderrBytes.
	Cut bool `json:"cut,omitempty"`
	// ProtectedChanged lists what makes a program of the host run something, and was made or changed while the command ran. There are at most 100.
	ProtectedChanged []ProtectedChange `json:"protected_changed,omitempty"`
	// Denials lists what was refused, the last first, if the policy asks for that. There are at most 100.
	Denials []Denial `json:"denials,omitempty"`
	// Receipt is what was really on.
	Receipt Receipt `json:"receipt"`
}
