package seccomp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefuse(t *testing.T) {
	const afVsock, seqpacket, cloexec = 40, 5, 0x80000
	for _, a := range Arches() {
		for _, tt := range []struct {
			groups []string
			call   string
			args   [6]uint64
			want   Action
		}{
			{[]string{RefuseInet}, "socket", [6]uint64{afInet, 1}, eperm},
			{[]string{RefuseInet}, "socket", [6]uint64{afNetlink, 3}, eperm},
			{[]string{RefuseInet}, "socket", [6]uint64{afVsock, 1}, eperm},
			{[]string{RefuseInet}, "socket", [6]uint64{afUnix, 1}, Allow},
			{[]string{RefuseUnix}, "socket", [6]uint64{afUnix, 1 | cloexec}, eperm},
			{[]string{RefuseUnix}, "socket", [6]uint64{afUnix | 1<<32, 1}, eperm},
			{[]string{RefuseUnix}, "socket", [6]uint64{afInet, 1}, Allow},
			{[]string{RefuseUnix, RefuseInet}, "socket", [6]uint64{afUnix, 1}, eperm},
			{[]string{RefuseUnix, RefuseInet}, "socket", [6]uint64{99, 1}, eperm},
			{[]string{RefuseUnix}, "socketpair", [6]uint64{afUnix, 1 | cloexec}, Allow},
			{[]string{RefuseUnix}, "socketpair", [6]uint64{afUnix, seqpacket}, Allow},
			{[]string{RefuseUnix}, "socketpair", [6]uint64{afUnix, 2 | cloexec}, eperm},
			{[]string{RefuseUnix}, "socketpair", [6]uint64{afUnix, 3}, eperm},
			{[]string{RefuseUnix}, "io_uring_setup", [6]uint64{}, enosys},
			{[]string{RefuseIPC}, "io_uring_setup", [6]uint64{}, Allow},
			{[]string{RefuseIPC}, "shmget", [6]uint64{}, enosys},
			{[]string{RefuseIPC}, "mq_open", [6]uint64{}, enosys},
			{[]string{RefuseIPC}, "socket", [6]uint64{afInet, 1}, Allow},
			{[]string{RefuseSessions}, "setsid", [6]uint64{}, eperm},
			{[]string{RefuseSessions}, "setpgid", [6]uint64{}, eperm},
			{[]string{RefuseSessions}, "execve", [6]uint64{}, Allow},
			{[]string{RefuseProcesses}, "setpriority", [6]uint64{0, 0}, Allow},
			{[]string{RefuseProcesses}, "setpriority", [6]uint64{0, 7}, eperm},
			{[]string{RefuseProcesses}, "setpriority", [6]uint64{2, 0}, eperm},
			{[]string{RefuseProcesses}, "ioprio_set", [6]uint64{1, 0}, Allow},
			{[]string{RefuseProcesses}, "ioprio_set", [6]uint64{3, 0}, eperm},
			{[]string{RefuseProcesses}, "sched_setaffinity", [6]uint64{0}, Allow},
			{[]string{RefuseProcesses}, "sched_setaffinity", [6]uint64{7}, eperm},
			{[]string{RefuseProcesses}, "sched_setattr", [6]uint64{7}, eperm},
			{[]string{RefuseProcesses}, "prlimit64", [6]uint64{0, 7}, Allow},
			{[]string{RefuseProcesses}, "prlimit64", [6]uint64{7, 7}, eperm},
			{[]string{RefuseMemfdExec}, "memfd_create", [6]uint64{1, 0}, eacces},
			{[]string{RefuseMemfdExec}, "memfd_create", [6]uint64{1, 0x17}, eacces},
			{[]string{RefuseMemfdExec}, "memfd_create", [6]uint64{1, 8 << 32}, eacces},
			{[]string{RefuseMemfdExec}, "memfd_create", [6]uint64{1, memfdNoExecSeal | 1}, Allow},
			{[]string{RefuseMemfdExec}, "socket", [6]uint64{afInet, 1}, Allow},
			{nil, "socket", [6]uint64{afInet, 1}, Allow},
		} {
			f, err := Refuse(tt.groups, a)
			require.NoError(t, err)
			d := Data{NR: numberOf(t, tt.call, a), Arch: a.Audit(), Args: tt.args}
			got, err := Interpret(f, d)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got, "%s: %v refuses %s %v", a, tt.groups, tt.call, tt.args)
			d.Arch = 0x40000003
			got, err = Interpret(f, d)
			require.NoError(t, err)
			assert.Equal(t, Kill, got, "foreign calls are killed")
		}
	}
	_, err := Refuse([]string{"inett"}, AMD64)
	assert.ErrorContains(t, err, "inet, unix, ipc, sessions, processes")
}

func numberOf(t *testing.T, name string, a Arch) uint32 {
	t.Helper()
	rows, _ := a.rows()
	for _, row := range rows {
		if row.name == name {
			return uint32(row.nr)
		}
	}
	t.Fatalf("%s has no %s", a, name)
	return 0
}
