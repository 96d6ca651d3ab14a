package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// Machine is one virtual machine that is to boot.
type Machine struct {
	Arch      string // amd64 or arm64
	Accel     string // kvm or tcg
	MemoryMB  int
	Kernel    string          // file
	Initramfs string          // file
	Append    string          // to the kernel's command line
	Dir       string          // for the console's log
	Again     func(why error) // is told that the machine is tried once more; nil if nobody wants to know
	Terminal  io.ReadWriter   // of a person, for a step with a console; nil if there is none
}

// ErrNoQemu means that qemu is not installed; the text has the way to.
var ErrNoQemu = errors.New("qemu is not installed")

// qemus are the programs and Debian's packages of them.
var qemus = map[string][2]string{
	"amd64": {"qemu-system-x86_64", "qemu-system-x86"},
	"arm64": {"qemu-system-aarch64", "qemu-system-arm"},
}

// FindQemu returns the program for an architecture.
func FindQemu(arch string) (string, error) {
	q := qemus[arch]
	at, err := exec.LookPath(q[0])
	if err != nil {
		return "", fmt.Errorf("%w: %s is not on PATH: apt-get install --no-install-recommends %s", ErrNoQemu, q[0], q[1])
	}
	return at, nil
}

// FindAccel returns kvm where the processor's virtualization is to be had, else tcg, which emulates; NSRUN_VM_ACCEL decides otherwise.
// A /dev/kvm alone says little: a nested one without vmx or svm emulates a stock kernel slower than qemu does.
func FindAccel() string {
	if accel := os.Getenv("NSRUN_VM_ACCEL"); accel != "" {
		return accel
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg"
	}
	f.Close()
	data, _ := os.ReadFile("/proc/cpuinfo")
	flags := strings.Fields(string(data))
	if slices.Contains(flags, "vmx") || slices.Contains(flags, "svm") {
		return "kvm"
	}
	return "tcg"
}

// emulated are the processors that TCG makes: all that it knows. Arm's own cipher for signed pointers takes three quarters of a kernel's time,
// qemu's does not.
var emulated = map[string]string{"amd64": "max", "arm64": "max,pauth-impdef=on"}

// args are qemu's. The kernel's console is a file, the frames are on standard input and output.
func (m Machine) args() []string {
	accel, cpu := "kvm", "host"
	if m.Accel == "tcg" { // with more threads, kernels die now and then while they patch their own code
		accel, cpu = "tcg,thread=single", emulated[m.Arch]
	}
	args := []string{"-accel", accel, "-cpu", cpu, "-smp", "2", "-m", strconv.Itoa(m.MemoryMB), "-nodefaults", "-no-user-config", "-display", "none",
		"-no-reboot", "-kernel", m.Kernel, "-initrd", m.Initramfs, "-chardev", "file,id=console,path=" + m.console(), "-chardev", "stdio,id=line,signal=off"}
	console := "ttyS0"
	if m.Arch == "arm64" {
		console = "ttyAMA0"
		args = append(args, "-M", "virt", "-serial", "chardev:console", "-device", "pci-serial,chardev=line")
	} else {
		args = append(args, "-M", "q35", "-device", "isa-serial,chardev=console,index=0", "-device", "isa-serial,chardev=line,index=1")
	}
	return append(args, "-append", strings.TrimSpace("console="+console+" panic=-1 quiet rdinit=/init "+m.Append))
}

func (m Machine) console() string { return filepath.Join(m.Dir, "console.log") }

// Command is what boots the machine, for a person to type.
func (m Machine) Command() string {
	var words []string
	for _, word := range append([]string{qemus[m.Arch][0]}, m.args()...) {
		if strings.ContainsAny(word, " '\"") {
			word = "'" + word + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// errNotUp means that the machine has not come so far as to say so. That is not the tests' doing.
var errNotUp = errors.New("the machine does not come up")

// Boot boots the machine and hands every frame to take, until the machine is off. It ends within limit, of which the time before the
// machine is up may take a part. A machine that fails before it is up is tried once more, and KVM gives way to emulation then.
func (m Machine) Boot(ctx context.Context, limit time.Duration, take func(guest.Frame)) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	err := m.boot(ctx, take)
	if errors.Is(err, errNotUp) && ctx.Err() == nil {
		if m.Again != nil {
			m.Again(err)
		}
		m.Accel = "tcg"
		err = m.boot(ctx, take)
	}
	return err
}

// powerOffTimeout is how long a machine that has said its last may take to go off.
const powerOffTimeout = 10 * time.Second

// upPatience is how long a machine may take to come up: 4 s are usual, and hardware is faster than emulation.
func (m Machine) upPatience() time.Duration {
	if m.Accel == "kvm" {
		return 20 * time.Second
	}
	return 5 * time.Minute
}

func (m Machine) boot(ctx context.Context, take func(guest.Frame)) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	qemu, err := FindQemu(m.Arch)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, qemu, m.args()...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe() // stays open: qemu ends when it does
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := dieWithParent(cmd); err != nil {
		return err
	}
	late := time.AfterFunc(m.upPatience(), kill)
	defer late.Stop()
	reader := bufio.NewReaderSize(out, 64<<10)
	up, fault, halted := follow(reader, func(f guest.Frame) {
		if f.Kind == guest.Up {
			late.Stop()
		}
		take(f)
		if f.Kind == guest.Halt {
			time.AfterFunc(powerOffTimeout, kill)
		}
		if f.Kind == guest.Begin && m.Terminal != nil {
			go func() { _, _ = io.Copy(in, m.Terminal) }()
			_, _ = io.Copy(m.Terminal, reader)
		}
	})
	halted = halted || up && m.Terminal != nil
	err = cmd.Wait()
	switch {
	case fault != "":
		return fmt.Errorf("init: %s", fault)
	case halted:
		return nil
	case !up:
		return fmt.Errorf("%w (%s): %v %s\n%s", errNotUp, m.Accel, err, complaint.String(), m.tail())
	case ctx.Err() != nil:
		return fmt.Errorf("the machine has been stopped: %w\n%s", context.Cause(ctx), m.tail())
	default:
		return fmt.Errorf("the machine has died: %v %s\n%s", err, complaint.String(), m.tail())
	}
}

// follow reads frames to their end.
func follow(r *bufio.Reader, take func(guest.Frame)) (up bool, fault string, halted bool) {
	for {
		f, err := guest.Read(r)
		if err != nil {
			return up, fault, halted
		}
		switch f.Kind {
		case guest.Up:
			up = true
		case guest.Fault:
			fault = string(f.Data)
		case guest.Halt:
			halted = true
		}
		take(f)
		if halted {
			_, _ = io.Copy(io.Discard, r)
			return up, fault, halted
		}
	}
}

// tail is the end of what the kernel has printed.
func (m Machine) tail() string {
	data, err := os.ReadFile(m.console())
	if err != nil {
		return ""
	}
	return "the kernel's console ends so:\n" + string(data[max(0, len(data)-3000):])
}
