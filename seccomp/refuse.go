package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// The groups of calls that [Refuse] knows. They replace namespaces in a sandbox without them, and noexec where there is no mount.
const (
	RefuseInet     = "inet"     // sockets of any family but AF_UNIX
	RefuseUnix     = "unix"     // AF_UNIX sockets that could connect to others by name; pairs of stream sockets stay
	RefuseIPC      = "ipc"      // System V and POSIX message queues, semaphores and shared memory
	RefuseSessions = "sessions" // leaving the process group

	RefuseProcesses = "processes"  // priority, processors and limits of other processes; and of itself by its own number
	RefuseMemfdExec = "memfd-exec" // executable files in memory: memfd_create(2) without MFD_NOEXEC_SEAL
)

// group is the name and the rules of one group.
type group struct {
	name  string
	rules []Rule
}

// groups has the rules of each group. Both socket groups restrict the same call, so [Refuse] adds that rule itself.
var groups = [...]group{
	{RefuseIPC, []Rule{{Action: enosys, Calls: `
		shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
		mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`}}},
	{RefuseSessions, []Rule{{Action: eperm, Calls: "setsid setpgid"}}},
	// A filter cannot recognize the process's own number, only the 0 that means "myself". Landlock does not restrict these calls.
	{RefuseProcesses, []Rule{
		{Calls: "setpriority ioprio_set", Action: eperm, Cases: []Case{{If: []Cond{{Arg: 1, In: []uint32{0}}, {Arg: 0, In: []uint32{prioProcess, ioprioProcess}}}, Action: Allow}}},
		{Calls: "sched_setaffinity sched_setscheduler sched_setparam sched_setattr prlimit64", Action: eperm, Cases: []Case{{If: []Cond{{Arg: 0, In: []uint32{0}}}, Action: Allow}}},
	}},
	{RefuseInet, nil},
	// EACCES is what execve(2) returns on a noexec mount, and memfd_create(2) if vm.memfd_noexec is 2.
	{RefuseMemfdExec, []Rule{{Calls: "memfd_create", Action: Allow, Cases: []Case{{If: []Cond{{Arg: 1, Mask: memfdNoExecSeal, In: []uint32{0}}}, Action: eacces}}}}},
	// A datagram socket of a pair can connect or send to another name (unix_dgram_connect, unix_dgram_sendmsg in net/unix/af_unix.c). The
	// kernel turns SOCK_RAW into a datagram socket. Stream and SOCK_SEQPACKET sockets cannot.
	{RefuseUnix, []Rule{{Calls: "socketpair", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 0, In: []uint32{afUnix}}, {Arg: 1, Mask: sockTypeMask, In: []uint32{sockDgram, sockRaw}}}, Action: eperm},
	}}}},
}

const (
	sockRaw       = 3
	prioProcess   = 0 // PRIO_PROCESS
	ioprioProcess = 1 // IOPRIO_WHO_PROCESS

	memfdNoExecSeal = 8 // MFD_NOEXEC_SEAL, since Linux 6.3
)

// Refuse returns a filter that refuses groups of calls and allows all others, to be stacked with a profile's filter.
func Refuse(names []string, arch Arch) (Filter, error) {
	p := Profile{Name: "refuse", Default: Allow}
	for _, name := range names {
		i := slices.IndexFunc(groups[:], func(g group) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("seccomp: group %q is unknown; there are %s", name,
				strings.Join([]string{RefuseInet, RefuseUnix, RefuseIPC, RefuseSessions, RefuseProcesses, RefuseMemfdExec}, ", "))
		}
		p.Rules = append(p.Rules, groups[i].rules...)
	}
	inet, unix := slices.Contains(names, RefuseInet), slices.Contains(names, RefuseUnix)
	socket := Rule{Calls: "socket", Action: Allow}
	switch {
	case inet && unix:
		socket.Action = eperm
	case inet:
		socket.Cases = []Case{{If: []Cond{{Arg: 0, In: []uint32{afUnix}, Not: true}}, Action: eperm}}
	case unix:
		socket.Cases = []Case{{If: []Cond{{Arg: 0, In: []uint32{afUnix}}}, Action: eperm}}
	}
	p.Rules = append(p.Rules, socket)
	if inet || unix { // io_uring makes and connects sockets where no filter sees it (IORING_OP_SOCKET)
		p.Rules = append(p.Rules, Rule{Calls: "io_uring_setup io_uring_enter io_uring_register", Action: enosys})
	}
	return Compile(p, arch)
}
