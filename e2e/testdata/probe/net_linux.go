package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func netActs() map[string]act {
	return map[string]act{
		"tcp":        {1, tcp},
		"udp":        {1, udp},
		"unix":       {1, func(a []string) error { return connect(a[0], unix.SOCK_STREAM) }},
		"lookup":     {1, lookup},
		"interfaces": {0, interfaces},
		"listen":     {2, listen},
		"shm":        {1, shm},
		"sem":        {1, func(a []string) error { return sysv(unix.SYS_SEMGET, a[0], 0) }},
		"msg":        {1, func(a []string) error { return sysv(unix.SYS_MSGGET, a[0], 0) }},
		"mq":         {1, mq},
	}
}

// tcp is reached when a connection is made, or is on its way.
func tcp(args []string) error {
	for _, addr := range args {
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return reached("%s", addr)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
			return reached("%s: packets are sent", addr)
		}
		if addr == args[len(args)-1] {
			return err
		}
	}
	return nil
}

// udp is reached when an answer comes.
func udp(args []string) error {
	conn, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("ping")); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(make([]byte, 8)); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return blocked(unix.ETIMEDOUT, "no answer")
		}
		return err
	}
	return nil
}

// connect reaches a Unix socket; a name with @ is an abstract one.
func connect(name string, kind int) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func lookup(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, args[0])
	if err != nil {
		return blocked(unix.ENOENT, "%v", err)
	}
	return reached("%v", addrs)
}

// interfaces is reached if there is any but the loopback.
func interfaces([]string) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Name != "lo" {
			return reached("%s", i.Name)
		}
	}
	return blocked(unix.ENODEV, "only lo")
}

// listen accepts one connection at an address, within a time.
func listen(args []string) error {
	bound, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(bound))
	conn, err := l.Accept()
	if err != nil {
		return blocked(unix.ETIMEDOUT, "nobody came")
	}
	conn.Close()
	return nil
}

// sysv looks for a System V object by its key, which is a number.
func sysv(nr uintptr, key string, size uintptr) error {
	var k int
	if _, err := fmt.Sscan(key, &k); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(nr, uintptr(k), size, 0); errno != 0 {
		return errno
	}
	return nil
}

func shm(args []string) error { return sysv(unix.SYS_SHMGET, args[0], 0) }

func mq(args []string) error {
	name, err := unix.ByteSliceFromString(args[0])
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, address(name), unix.O_RDONLY, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	unix.Close(int(fd))
	return nil
}
