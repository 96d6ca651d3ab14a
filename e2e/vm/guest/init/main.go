// Init is process 1 of the tests' virtual machines. It makes each host that the plan describes and runs the host's steps, reports in frames
// on the second serial line, and powers off.
//
// It protects nothing.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

func main() {
	runtime.LockOSThread()
	if err := run(); err != nil {
		fmt.Println("init:", err)
		say(guest.Frame{Kind: guest.Fault, Data: []byte(err.Error())})
	}
	say(guest.Frame{Kind: guest.Halt})
	if line != nil {
		_ = unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1) // until all has been sent
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // qemu has -no-reboot
	select {}
}

func run() error {
	for _, m := range []place{{"proc", "/proc", "proc", quiet, ""}, {"dev", "/dev", "devtmpfs", unix.MS_NOSUID, ""}, {"sys", "/sys", "sysfs", quiet, ""}} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := openLine(); err != nil {
		return err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	say(guest.Frame{Kind: guest.Up, Name: unix.ByteSliceToString(name.Release[:])})
	data, err := os.ReadFile(guest.PlanFile)
	if err != nil {
		return err
	}
	var plan guest.Plan
	if err := json.Unmarshal(data, &plan); err != nil {
		return err
	}
	for _, file := range plan.Modules {
		if err := load(file); err != nil {
			return err
		}
	}
	if len(plan.Hosts) == 0 {
		return errors.New("the plan has no host")
	}
	if err := makePlaces(plan.Hosts[0].Host); err != nil {
		return err
	}
	for _, h := range plan.Hosts {
		if err := serve(h); err != nil {
			return err
		}
	}
	return nil
}

// serve makes one host, runs its steps, and takes back what sets it apart from the next.
func serve(h guest.Hosted) error {
	undo, err := makeHost(h.Host)
	if err != nil {
		return err
	}
	for _, step := range h.Steps {
		if err := runStep(step, h.Host); err != nil {
			return fmt.Errorf("step %s: %w", step.Name, err)
		}
		if step.Console {
			line = nil // a person reads it
		}
	}
	for _, f := range slices.Backward(undo) {
		err = errors.Join(err, f())
	}
	return err
}

// load loads a module; the kernel unpacks it.
func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	const compressed = 4 // MODULE_INIT_COMPRESSED_FILE (linux/module.h)
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = compressed
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("module %s: %w", file, err)
	}
	return nil
}
