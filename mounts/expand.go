package mounts

import "slices"

// deviceNodes are the nodes of a minimal /dev with their device numbers (Documentation/admin-guide/devices.txt). The numbers are
// checked before a node is bound or used as a mask: CVE-2025-31133 was a /dev/null that was something else.
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

// procReadOnly are places below /proc through which the host could be controlled; they can be read.
var procReadOnly = []string{"sys", "bus", "fs", "irq"}

// procMasked are places below /proc that tell of the host's kernel, memory, keys or other processes, or control it. The list is
// that of runc's default maskedPaths and docker's, and what security.md's rows PR01-PR11 and PR26 name.
var procMasked = []string{
	"acpi", "asound", "cmdline", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg",
	"kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "pagetypeinfo", "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo",
}

// ProcMasked lists the places below a procfs that [Proc] covers, where the kernel has them.
func ProcMasked() []string { return slices.Clone(procMasked) }

// BootID is the operation that covers the id of the host's boot below a procfs at dest, by which what runs in different sandboxes, or in the
// same one later, could be brought together. Programs want a UUID there (random(4)), so it is one, and always the same: a plan is the same
// on every machine.
func BootID(dest string) Op {
	return Op{Kind: File, Dest: dest + "/sys/kernel/random/boot_id", Data: []byte("00000000-0000-4000-8000-000000000000\n"), Mode: 0o444,
		Flags: Flags{ReadOnly}, Optional: true}
}

// Expand writes the composite operations [Dev] and [Proc] out as simple ones, and returns for each the position of the operation that it came
// from. It is what [Lower] carries out, in this order.
func Expand(ops []Op) (simple []Op, from []int) {
	for i, op := range ops {
		var parts []Op
		switch op.Kind {
		case Dev:
			parts = expandDev(op)
		case Proc:
			parts = expandProc(op)
		default:
			parts = []Op{op}
		}
		for _, part := range parts {
			simple, from = append(simple, part), append(from, i)
		}
	}
	return simple, from
}

func expandDev(op Op) []Op {
	at := func(name string) string { return op.Dest + "/" + name }
	ops := []Op{{Kind: Tmpfs, Dest: op.Dest, Flags: Flags{NoSuid, NoDev, NoExec}, Size: 1 << 16, Inodes: 64, Mode: 0o755}}
	for _, n := range deviceNodes {
		ops = append(ops, Op{Kind: Bind, Source: "/dev/" + n.Name, Dest: at(n.Name),
			// Devices can be written through a read-only mount; their mode and times cannot be changed: to root they are its own.
			Flags: Flags{ReadOnly, NoSuid, NoExec}, Only: "device"})
	}
	for _, l := range devLinks {
		ops = append(ops, Op{Kind: Symlink, Source: l.Target, Dest: at(l.Name)})
	}
	return append(ops,
		Op{Kind: Devpts, Dest: at("pts")},
		Op{Kind: Dir, Dest: at("shm")},
		// Last, so that no program can put files beside the nodes (FS31); what is mounted below stays as it is.
		Op{Kind: Remount, Dest: op.Dest, Flags: Flags{ReadOnly, NoSuid, NoDev, NoExec}})
}

func expandProc(op Op) []Op {
	ops := []Op{{Kind: Proc, Dest: op.Dest, Flags: Flags{NoSuid, NoDev, NoExec}}}
	for _, name := range procReadOnly {
		ops = append(ops, Op{Kind: Rebind, Dest: op.Dest + "/" + name, Optional: true, Flags: Flags{ReadOnly, NoSuid, NoDev, NoExec}})
	}
	for _, name := range procMasked {
		ops = append(ops, Op{Kind: Mask, Dest: op.Dest + "/" + name, Optional: true})
	}
	return append(ops, BootID(op.Dest))
}
