package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/nsrun"
)

// nothing is a static program that does nothing.
var nothing string

// act is one thing that is timed.
type act struct {
	name string
	do   func() error
}

// benchSessions times what sessions are made of, beside the bare fork+exec and one run of bwrap's, for a program that does nothing: a small
// static one. Once more from a process with a heap of a gigabyte.
func benchSessions(dir string, rounds int) error {
	if nothing == "" {
		var err error
		if nothing, err = writeNothing(dir); err != nil {
			return err
		}
	}
	nothing, err := filepath.Abs(nothing)
	if err != nil {
		return err
	}
	dir = filepath.Dir(nothing)
	policy, err := nsrun.NewPolicy().ReadOnly(dir).Build()
	if err != nil {
		return err
	}
	warm, err := nsrun.Open(context.Background(), policy)
	if err != nil {
		return err
	}
	defer warm.Close()
	acts := []act{
		{"fork+exec", func() error { return forkExec(nothing) }},
		{"fork+exec by os/exec, with its output", func() error { _, err := exec.Command(nothing).Output(); return err }},
		{"exec in a warm session", func() error { return output(warm.Command(context.Background(), nothing)) }},
		{"open a session", func() error { return openOnly(policy) }},
		{"run: open, exec, close", func() error { return nsrun.CommandContext(context.Background(), policy, nothing).Run() }},
	}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		argv := append(bwrapSystem(bwrap), "--ro-bind", dir, dir, nothing)
		acts = append(acts, act{"bwrap", func() error { return exec.Command(argv[0], argv[1:]...).Run() }})
	}
	if err := timeActs("sessions", rounds, acts); err != nil {
		return err
	}
	heap := make([]byte, 1<<30)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 1
	}
	err = timeActs("sessions, from a process with a heap of 1 GB", rounds, acts)
	runtime.KeepAlive(heap)
	if err != nil {
		return err
	}
	return idleSessions(policy, 200)
}

func output(c *nsrun.Cmd) error {
	_, err := c.Output()
	return err
}

// opened are the sessions of openOnly, whose ends are not timed.
var opened []*nsrun.Session

func openOnly(p nsrun.Policy) error {
	s, err := nsrun.Open(context.Background(), p)
	opened = append(opened, s)
	return err
}

func forkExec(name string) error {
	pid, err := syscall.ForkExec(name, []string{name}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, 0, nil)
	return err
}

// timeActs interleaves the acts. Ratios are of the first and of the last.
func timeActs(title string, rounds int, acts []act) error {
	took := make([][]time.Duration, len(acts))
	for range rounds {
		for i, a := range acts {
			start := time.Now()
			err := a.do()
			took[i] = append(took[i], time.Since(start))
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			for _, s := range opened {
				s.Close()
			}
			opened = nil
		}
	}
	fmt.Printf("%s, %d runs of each\n", title, rounds)
	for i := range took {
		slices.Sort(took[i])
	}
	first, last := took[0], took[len(took)-1]
	for i, a := range acts {
		median := func(t []time.Duration) float64 { return ms(t[len(t)/2]) }
		fmt.Printf("  %-44s min %8.2f ms   median %8.2f ms   of fork+exec: %.2f, %.2f   of %s: %.2f, %.2f\n", a.name, ms(took[i][0]), median(took[i]),
			ms(took[i][0])/ms(first[0]), median(took[i])/median(first), acts[len(acts)-1].name, ms(took[i][0])/ms(last[0]), median(took[i])/median(last))
	}
	return nil
}

// idleSessions opens n sessions and says what one costs in memory that it shares with nobody.
func idleSessions(p nsrun.Policy, n int) error {
	var all []*nsrun.Session
	defer func() {
		for _, s := range all {
			s.Close()
		}
	}()
	for range n {
		s, err := nsrun.Open(context.Background(), p)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	private, processes := privateMemory()
	fmt.Printf("%d idle sessions\n  private memory of all %d processes of theirs, the spawner included: %d KiB, %d KiB for each session\n", n, processes, private, private/n)
	return nil
}

// privateMemory sums up Private_Dirty and Private_Clean of the spawner's processes.
func privateMemory() (kib, processes int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		dir := filepath.Dir(f)
		status, _ := os.ReadFile(dir + "/status")
		if !strings.Contains(string(status), "\nPPid:\t"+fmt.Sprint(os.Getpid())+"\n") {
			continue
		}
		spawner := filepath.Base(dir)
		all := []string{spawner}
		lists, _ := filepath.Glob(dir + "/task/*/children")
		for _, list := range lists {
			data, _ := os.ReadFile(list)
			all = append(all, strings.Fields(string(data))...)
		}
		for _, pid := range all {
			rollup, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup")
			for line := range strings.Lines(string(rollup)) {
				var n int
				if _, err := fmt.Sscanf(line, "Private_Dirty: %d", &n); err == nil {
					kib += n
				} else if _, err := fmt.Sscanf(line, "Private_Clean: %d", &n); err == nil {
					kib += n
				}
			}
			processes++
		}
	}
	return kib, processes
}

// writeNothing writes a static program that does nothing: an ELF header, one segment, and exit_group(0).
func writeNothing(dir string) (string, error) {
	machine, code := uint16(62), []byte{0x31, 0xff, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05} // xor edi, edi; mov eax, 231; syscall
	if runtime.GOARCH == "arm64" {
		machine, code = 183, []byte{0, 0, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4} // mov x0, 0; mov x8, 94; svc 0
	}
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	for _, v := range []uint16{2, machine} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(elf, 1)
	for _, v := range []uint64{base + headers, 64, 0} {
		elf = le.AppendUint64(elf, v)
	}
	elf = le.AppendUint32(elf, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(le.AppendUint32(elf, 1), 5) // PT_LOAD, to be read and executed
	size := uint64(headers + len(code))
	for _, v := range []uint64{0, base, base, size, size, 0x1000} {
		elf = le.AppendUint64(elf, v)
	}
	name := filepath.Join(dir, "nothing")
	return name, os.WriteFile(name, append(elf, code...), 0o755)
}
