package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// machine is where nsbench runs, and how.
type machine struct {
	Name     string `json:"name"`
	Kernel   string `json:"kernel"`
	Arch     string `json:"arch"`
	CPU      string `json:"cpu"` // the model, empty if the kernel does not name it
	CPUs     int    `json:"cpus"`
	Go       string `json:"go"` // that built nsbench
	Date     string `json:"date"`
	UID      int    `json:"uid"`
	Load     string `json:"load"` // averages of 1, 5 and 15 minutes at the start
	Realtime bool   `json:"realtime"`
}

func thisMachine(realtime bool) (machine, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return machine{}, err
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return machine{}, err
	}
	cpus, err := os.ReadFile("/proc/cpuinfo")
	averages := strings.Fields(string(load))
	return machine{
		Name: unix.ByteSliceToString(name.Nodename[:]), Kernel: unix.ByteSliceToString(name.Release[:]), Arch: runtime.GOARCH,
		CPU: cpuModel(string(cpus)), CPUs: runtime.NumCPU(), Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateTime + " UTC"),
		UID: os.Getuid(), Load: strings.Join(averages[:min(3, len(averages))], " "), Realtime: realtime,
	}, err
}

// cpuModel finds the first processor's model in /proc/cpuinfo. On arm64 there is none.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hardware is the machine in a few words.
func (m machine) hardware() string {
	words := []string{m.Name, m.CPU, fmt.Sprintf("%d CPUs", m.CPUs), "Linux " + m.Kernel, m.Arch}
	var known []string
	for _, word := range words {
		if word != "" {
			known = append(known, word)
		}
	}
	return strings.Join(known, ", ")
}

// conditions are the date, and how nsbench runs.
func (m machine) conditions() string {
	text := fmt.Sprintf("%s, uid %d, load %s, %s", m.Date, m.UID, m.Load, m.Go)
	if m.Realtime {
		text += ", SCHED_RR"
	}
	return text
}

func (m machine) print(out io.Writer) { fmt.Fprintf(out, "%s\n%s\n", m.hardware(), m.conditions()) }

// goRealtime makes this process, and all that it starts, run under SCHED_RR with priority 1. The policy belongs to a thread and is kept across
// execve(2), which ends all other threads (sched(7)): the program is executed again with it.
func goRealtime() error {
	attr, err := unix.SchedGetAttr(0, 0)
	if err == nil && attr.Policy == unix.SCHED_RR {
		return nil
	}
	runtime.LockOSThread()
	err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
	if err != nil {
		return fmt.Errorf("--realtime: sched_setattr: %w; it takes root's CAP_SYS_NICE, or a limit RLIMIT_RTPRIO of 1 (ulimit -r), and a cgroup with real-time"+
			" bandwidth", err)
	}
	return fmt.Errorf("--realtime: execve: %w", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}
