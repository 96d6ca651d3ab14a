package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// room is filled by msgctl(2).
var room [512]byte

// waitLimit bounds the wait for an answer: who is refused learns of it at once, and an emulated machine may take seconds to answer.
const waitLimit = 10 * time.Second

func socketActs() map[string]act {
	return map[string]act{
		"tcp":      tcp,
		"udp":      udp,
		"loopback": loopback,
		"unix":     func(a []string) (any, error) { return nil, connect(a[0], unix.SOCK_STREAM) },
		"packet":   func(a []string) (any, error) { return nil, connect(a[0], unix.SOCK_DGRAM) },
		"pair":     pair,
		"shm":      shm,
		"sem":      func(a []string) (any, error) { return systemV(unix.SYS_SEMGET, a[0], 0) },
		"msg":      func(a []string) (any, error) { return systemV(unix.SYS_MSGGET, a[0], 0) },
		"mq":       mq,
		"shm-id":   onID(unix.SYS_SHMAT, 0, unix.SHM_RDONLY),
		"sem-id":   onID(unix.SYS_SEMCTL, 0, 12 /* GETVAL */),
		"msg-id":   onID(unix.SYS_MSGCTL, 2 /* IPC_STAT */, uintptr(unsafe.Pointer(&room))),
		"vsock":    vsock,
	}
}

func tcp(args []string) (any, error) {
	conn, err := net.DialTimeout("tcp", args[0], waitLimit)
	if err == nil {
		conn.Close()
	}
	return nil, err
}

// udp is done if an answer comes.
func udp(args []string) (any, error) {
	conn, err := net.Dial("udp", args[0])
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("udp")); err != nil {
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(waitLimit))
	_, err = conn.Read(make([]byte, 8))
	return nil, err
}

// loopback is done if there is one of the sandbox's own: a connection to itself, and none to the host's server.
func loopback(args []string) (any, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if _, err := tcp([]string{l.Addr().String()}); err != nil {
		return nil, err
	}
	if _, err := tcp(args); err == nil {
		return nil, errors.New("it is the host's")
	}
	return nil, nil
}

// connect reaches a Unix socket; a name with @ is an abstract one. A datagram is sent.
func connect(name string, kind int) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil || kind == unix.SOCK_STREAM {
		return err
	}
	_, err = unix.Write(fd, []byte("unix"))
	return err
}

// pair takes one end of a pair and turns it to another socket: no call of socket(2) is made.
func pair(args []string) (any, error) {
	kinds := map[string]int{"datagram": unix.SOCK_DGRAM, "sequential": unix.SOCK_SEQPACKET, "stream": unix.SOCK_STREAM}
	fds, err := unix.Socketpair(unix.AF_UNIX, kinds[args[0]]|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrUnix{Name: args[1]}
	sendErr := unix.Sendto(fds[0], []byte("pair"), 0, to)
	connectErr := unix.Connect(fds[0], to)
	if sendErr == nil || connectErr == nil {
		return fmt.Sprintf("sendto: %v; connect: %v", sendErr, connectErr), nil
	}
	return nil, fmt.Errorf("sendto: %w; connect: %w", sendErr, connectErr)
}

func systemV(nr uintptr, key string, size uintptr) (any, error) {
	var k int
	if _, err := fmt.Sscan(key, &k); err != nil {
		return nil, err
	}
	id, _, errno := unix.Syscall(nr, uintptr(k), size, 0)
	if errno != 0 {
		return nil, errno
	}
	return int(id), nil
}

// shm attaches a segment.
func shm(args []string) (any, error) {
	id, err := systemV(unix.SYS_SHMGET, args[0], 0)
	if err != nil {
		return nil, err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SHMAT, uintptr(id.(int)), 0, unix.SHM_RDONLY); errno != 0 {
		return nil, errno
	}
	return nil, nil
}

// onID does something to an object whose number is known, of System V: nobody looks for a key.
func onID(nr, second, third uintptr) act {
	return func(args []string) (any, error) {
		var id uintptr
		if _, err := fmt.Sscan(args[0], &id); err != nil {
			return nil, err
		}
		if _, _, errno := unix.Syscall(nr, id, second, third); errno != 0 {
			return nil, errno
		}
		return nil, nil
	}
}

// vsock makes a socket to the machine's hypervisor, which no network namespace keeps away, and connects to nobody.
func vsock([]string) (any, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.Close(fd)
	}
	return nil, err
}

func mq(args []string) (any, error) {
	name, err := unix.BytePtrFromString(args[0])
	if err != nil {
		return nil, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDONLY, 0, 0, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	unix.Close(int(fd))
	return nil, nil
}

// bystander stands for the caller's other programs: it holds objects that no file names, until its input ends. Its words are a key of
// System V objects, the name of a message queue, and a word to be known by.
func bystander(args []string) (any, error) {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // Yama would forbid the controls for reasons of its own
	var key uintptr
	if _, err := fmt.Sscan(args[0], &key); err != nil {
		return nil, err
	}
	ids := []any{"ready"}
	for _, o := range []struct{ get, remove, size uintptr }{
		{unix.SYS_SHMGET, unix.SYS_SHMCTL, 4096}, {unix.SYS_SEMGET, unix.SYS_SEMCTL, 1}, {unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.IPC_CREAT | 0o600},
	} {
		id, _, errno := unix.Syscall(o.get, key, o.size, unix.IPC_CREAT|0o600)
		if errno != 0 {
			return nil, errno
		}
		ids = append(ids, id)
		defer func() {
			if o.remove == unix.SYS_SEMCTL {
				_, _, _ = unix.Syscall6(o.remove, id, 0, unix.IPC_RMID, 0, 0, 0)
				return
			}
			_, _, _ = unix.Syscall(o.remove, id, unix.IPC_RMID, 0)
		}()
	}
	name, err := unix.BytePtrFromString(args[1])
	if err != nil {
		return nil, err
	}
	_, _, _ = unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	defer func() { _, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0) }()
	fmt.Println(ids...)
	for {
		if n, err := os.Stdin.Read(make([]byte, 1)); n == 0 || err != nil {
			return nil, nil
		}
	}
}
