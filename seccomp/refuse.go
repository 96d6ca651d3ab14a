package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// Groups of calls that [Refuse] knows: what namespaces take away in a sandbox that has them, and what noexec does on a mount.
const (
	RefuseInet     = "inet"     // sockets of any family but AF_UNIX
	RefuseUnix     = "unix"     // AF_UNIX sockets that could be connected to others by name; pairs of streams stay
	RefuseIPC      = "ipc"      // System V and POSIX message queues, semaphores and shared memory
	RefuseSessions = "sessions" // leaving the process group

	RefuseProcesses = "processes"  // priorities, processors and limits of others; what a thread is called by its own number included
	RefuseMemfdExec = "memfd-exec" // files in memory that could be executed: memfd_create(2) without MFD_NOEXEC_SEAL
)

// group is the rules of one group.
type group struct {
	name  string
	rules []Rule
}

// groups are the rules of each group. Those of both socket groups are for the same call: see refusal.
var groups = [...]group{
	{RefuseIPC, []Rule{{Action: enosys, Calls: `
		shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
		mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`}}},
	{RefuseSessions, []Rule{{Action: eperm, Calls: "setsid setpgid"}}},
	// Without an argument that means "myself" a filter cannot tell who is meant, and Landlock has no say in it.
	{RefuseProcesses, []Rule{
		{Calls: "setpriority ioprio_set", Action: eperm, Cases: []Case{{If: []Cond{{Arg: 1, In: []uint32{0}}, {Arg: 0, In: []uint32{prioProcess, ioprioProcess}}}, Action: Allow}}},
		{Calls: "sched_setaffinity sched_setscheduler sched_setparam sched_setattr prlimit64", Action: eperm, Cases: []Case{{If: []Cond{{Arg: 0, In: []uint32{0}}}, Action: Allow}}},
	}},
	{RefuseInet, nil},
	// EACCES is the answer of execve(2) on a mount that is noexec, and of memfd_create(2) where vm.memfd_noexec is 2.
	{RefuseMemfdExec, []Rule{{Calls: "memfd_create", Action: Allow, Cases: []Case{{If: []Cond{{Arg: 1, Mask: memfdNoExecSeal, In: []uint32{0}}}, Action: eacces}}}}},
	// A pair of datagram sockets can be connected to another name, or send to one (unix_dgram_connect, unix_dgram_sendmsg in
	// net/unix/af_unix.c); SOCK_RAW is made one. Streams and SOCK_SEQPACKET cannot.
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

// Refuse returns a filter that refuses groups of calls and allows the rest, to be stacked with a profile's. It stands in for namespaces
// where there are none, and for noexec where there is no mount.
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
	if inet || unix { // an asynchronous queue makes and connects sockets out of any filter's sight (IORING_OP_SOCKET)
		p.Rules = append(p.Rules, Rule{Calls: "io_uring_setup io_uring_enter io_uring_register", Action: enosys})
	}
	return Compile(p, arch)
}
