package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func hostActs() map[string]act {
	return map[string]act{"host": {3, host}, "sleep": {0, func([]string) error { time.Sleep(time.Minute); return nil }}}
}

// host stands for the user's other programs: it holds objects that no file names, until its input ends. Its words are a key for
// System V objects, the name of a message queue, and a word to be known by. It prints a line "missing OBJECT: reason" for each object that
// it cannot make, and then "ready".
func host(args []string) error {
	var key uintptr
	if _, err := fmt.Sscan(args[0], &key); err != nil {
		return err
	}
	// So that Yama allows the controls what it would forbid for its own reasons.
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for _, o := range []struct {
		name              string
		get, remove, size uintptr
	}{
		{"shm", unix.SYS_SHMGET, unix.SYS_SHMCTL, 4096}, {"sem", unix.SYS_SEMGET, unix.SYS_SEMCTL, 1}, {"msg", unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.IPC_CREAT | 0o600},
	} {
		id, _, errno := unix.Syscall(o.get, key, o.size, unix.IPC_CREAT|0o600)
		if errno != 0 {
			fmt.Printf("missing %s: %v\n", o.name, errno)
			continue
		}
		ends = append(ends, func() {
			if o.remove == unix.SYS_SEMCTL {
				_, _, _ = unix.Syscall6(o.remove, id, 0, unix.IPC_RMID, 0, 0, 0)
				return
			}
			_, _, _ = unix.Syscall(o.remove, id, unix.IPC_RMID, 0)
		})
	}
	name, err := unix.ByteSliceFromString(args[1])
	if err != nil {
		return err
	}
	switch _, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, address(name), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0); {
	case errno == 0:
		ends = append(ends, func() { _, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, address(name), 0, 0) })
	case !errors.Is(errno, unix.ENOSYS): // a kernel without message queues has nothing to protect
		fmt.Printf("missing mq: %v\n", errno)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return silent
}
