package mounts

import "slices"

// deviceNodes are the nodes of a minimal /dev with their device numbers (Documentation/admin-guide/devices.txt). Lowering checks the number
// before it binds a node or uses it as a mask: in CVE-2025-31133, /dev/null was something else.
var deviceNodes = []struct {
	Name         string
	Major, Minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

// devLinks are the usual links of /dev.
var devLinks = []struct{ Name, Target string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
	{"ptmx", "pts/ptmx"},
}

// procReadOnly are places below /proc that control the host when they are written to. They stay readable.
var procReadOnly = []string{"sys", "bus", "fs", "irq"}

// procMasked are places below /proc that reveal or control the host's kernel, memory, keys or processes. The list has runc's default
// maskedPaths, Docker's, and those of the attack cases PR01-PR11 and PR26.
var procMasked = []string{
	"acpi", "asound", "cmdline", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg",
	"kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "pagetypeinfo", "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo",
}

// ProcMasked returns the places below a procfs that [Proc] covers, if the kernel has them.
func ProcMasked() []string { return slices.Clone(procMasked) }

// BootID returns the operation that covers the boot id in the procfs at dest. The id would link what runs in different sandboxes on one
// host, or in one sandbox at different times. Programs expect a UUID there (random(4)), so the file has one. It is the same on every
// machine, as plans must be.
func BootID(dest string) Op {
	return Op{Kind: File, Dest: dest + "/sys/kernel/random/boot_id", Data: []byte("00000000-0000-4000-8000-000000000000\n"), Mode: 0o444,
		Flags: Flags{ReadOnly}, Optional: true}
}

// Expand replaces the composite operations [Dev] and [Proc] by simple ones, and returns for each simple one the index of the operation that
// it came from. [Lower] carries out the result in this order.
func Expand(ops []Op) (simple []Op, from []int) {
	n := len(ops)
	for i := range ops {
		switch ops[i].Kind {
		case Dev:
			n += len(deviceNodes) + len(devLinks) + 3
		case Proc:
			n += len(procReadOnly) + len(procMasked) + 1
		}
	}
	simple, from = make([]Op, 0, n), make([]int, 0, n)
	for i, op := range ops {
		switch op.Kind {
		case Dev:
			simple = appendDev(simple, op.Dest)
		case Proc:
			simple = appendProc(simple, op.Dest)
		default:
			simple = append(simple, op)
		}
		for len(from) < len(simple) {
			from = append(from, i)
		}
	}
	return simple, from
}

// appendDev appends the operations of a minimal /dev: a tmpfs with bound device nodes, symlinks and a private devpts.
func appendDev(ops []Op, dest string) []Op {
	at := func(name string) string { return dest + "/" + name }
	ops = append(ops, Op{Kind: Tmpfs, Dest: dest, Flags: Flags{NoSuid, NoDev, NoExec}, Size: 1 << 16, Inodes: 64, Mode: 0o755, Shared: true})
	for _, n := range deviceNodes {
		ops = append(ops, Op{Kind: Bind, Source: "/dev/" + n.Name, Dest: at(n.Name),
			// A device works through a read-only mount, but its mode and times cannot be changed: root in the sandbox would change the
			// host's.
			Flags: Flags{ReadOnly, NoSuid, NoExec}, Only: "device"})
	}
	for _, l := range devLinks {
		ops = append(ops, Op{Kind: Symlink, Source: l.Target, Dest: at(l.Name)})
	}
	return append(ops,
		Op{Kind: Devpts, Dest: at("pts")},
		Op{Kind: Dir, Dest: at("shm"), Mode: 0o1777},
		// Last, so that no program can put files beside the nodes (attack case FS31). What is mounted below keeps its flags.
		Op{Kind: Remount, Dest: dest, Flags: Flags{ReadOnly, NoSuid, NoDev, NoExec}})
}

// appendProc appends the operations of a procfs: the mount itself, then what covers the places that reveal or control the host.
func appendProc(ops []Op, dest string) []Op {
	ops = append(ops, Op{Kind: Proc, Dest: dest, Flags: Flags{NoSuid, NoDev, NoExec}})
	for _, name := range procReadOnly {
		ops = append(ops, Op{Kind: Rebind, Dest: dest + "/" + name, Optional: true, Flags: Flags{ReadOnly, NoSuid, NoDev, NoExec}})
	}
	for _, name := range procMasked {
		ops = append(ops, Op{Kind: Mask, Dest: dest + "/" + name, Optional: true})
	}
	return append(ops, BootID(dest))
}
