// Hostile makes system calls as a hostile program does, and prints the errnos that they came to: "ENOENT 3" is three calls that failed with ENOENT, and
// "OK 2" two that succeeded. "hostile wait ACT ..." waits at its end until its input ends.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

var acts = map[string]func(args []string){
	"open":    func(a []string) { count(openPath(a[0], unix.O_RDONLY)) },
	"create":  func(a []string) { count(openPath(a[0], unix.O_WRONLY|unix.O_CREAT)) },
	"rw":      func(a []string) { count(openPath(a[0], unix.O_RDWR)) },
	"exec":    func(a []string) { count(unix.Exec(a[0], a, os.Environ())) },
	"unix":    func(a []string) { count(dial(unix.AF_UNIX, &unix.SockaddrUnix{Name: a[0]})) },
	"udp":     udp,
	"traceme": func([]string) { _, _, errno := unix.RawSyscall(unix.SYS_PTRACE, 0, 0, 0); count(errno) },
	"flood":   flood,
	"spell":   spell,
	"makes":   makes,
	"rewrite": rewrite,
	"chdirs":  chdirs,
	"exits":   exits,
	"killed":  killed,
	"faults":  func([]string) { faults() },
	"pageend": func(a []string) { pageEnd(a[0]) },
	"threads": threads,
	"replay":  replay,
}

func main() {
	words := os.Args[1:]
	wait := words[0] == "wait"
	if wait {
		words = words[1:]
	}
	acts[words[0]](words[1:])
	printCounts()
	if wait {
		fmt.Println("waiting")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

var counts = struct {
	sync.Mutex
	of map[string]int
}{of: map[string]int{}}

// count counts the outcome of one call.
func count(err error) {
	name := "OK"
	if errno, ok := err.(unix.Errno); ok && errno != 0 {
		name = unix.ErrnoName(errno)
	} else if err != nil && !ok {
		name = err.Error()
	}
	counts.Lock()
	counts.of[name]++
	counts.Unlock()
}

func printCounts() {
	var names []string
	for name := range counts.of {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(name, counts.of[name])
	}
}

func check(err error) {
	if err != nil {
		fmt.Println("hostile:", err)
		os.Exit(3)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func openPath(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func dial(family int, to unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

// udp connects a datagram socket, which sends nothing, to an IPv4 address in four words and a port.
func udp(args []string) {
	to := &unix.SockaddrInet4{Port: 9}
	for i := range to.Addr {
		to.Addr[i] = byte(number(args[i]))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		count(err)
		return
	}
	defer unix.Close(fd)
	count(unix.Connect(fd, to))
}

// flood opens a path N times.
func flood(args []string) {
	for range number(args[1]) {
		count(openPath(args[0], unix.O_RDONLY))
	}
}

// makes opens what is not there, and makes it, N times, each with another name in a directory.
func makes(args []string) {
	for i := range number(args[1]) {
		name := args[0] + "/" + strconv.Itoa(i)
		count(openPath(name, unix.O_RDONLY))
		count(openPath(name, unix.O_WRONLY|unix.O_CREAT))
		if i%2 == 0 {
			count(unix.Unlink(name))
		}
	}
}

// spell opens a file of a directory N times, each time by another path.
func spell(args []string) {
	for i := range number(args[2]) {
		name := args[0]
		for bit := range 20 {
			if name += "/./"; i>>bit&1 == 1 {
				name += "././"
			}
		}
		count(openPath(name+"/"+args[1], unix.O_RDONLY))
	}
}

// threads opens a path in N threads at once, ten times in each.
func threads(args []string) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for range number(args[1]) {
		ready.Add(1)
		done.Add(1)
		go func() {
			runtime.LockOSThread() // a thread for each
			defer done.Done()
			ready.Done()
			<-begin
			for range 10 {
				count(openPath(args[0], unix.O_RDONLY))
			}
		}()
	}
	ready.Wait()
	close(begin)
	done.Wait()
}
