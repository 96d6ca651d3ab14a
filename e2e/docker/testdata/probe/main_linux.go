// Command probe tries things and says how they went, one word or line each. It is static, so that it runs in any view.
package main

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	args := os.Args[2:]
	acts := map[string]func([]string) error{"connect": connect, "interfaces": interfaces, "kill": kill, "descriptors": descriptors, "limits": limits}
	act, ok := acts[os.Args[1]]
	if !ok {
		os.Exit(2)
	}
	if err := act(args); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// connect connects to args[1] over args[0].
func connect(args []string) error {
	c, err := net.DialTimeout(args[0], args[1], 2*time.Second)
	if err != nil {
		return err
	}
	fmt.Println("connected")
	return c.Close()
}

func interfaces([]string) error {
	list, err := net.Interfaces()
	for _, i := range list {
		fmt.Println(i.Name)
	}
	return err
}

// kill sends pid 1 every signal but SIGKILL and SIGSTOP.
func kill([]string) error {
	for s := syscall.Signal(1); s < 32; s++ {
		if s == syscall.SIGKILL || s == syscall.SIGSTOP {
			continue
		}
		fmt.Println(s, syscall.Kill(1, s))
	}
	time.Sleep(200 * time.Millisecond)
	return nil
}

// descriptors lists those that are open beside the standard ones.
func descriptors([]string) error {
	var st syscall.Stat_t
	for fd := 3; fd < 1024; fd++ {
		if err := syscall.Fstat(fd, &st); err == nil && st.Mode&syscall.S_IFMT != 0 {
			fmt.Println(fd, fmt.Sprintf("%o", st.Mode))
		}
	}
	return nil
}

// limits prints the soft and the hard limit of each resource.
func limits([]string) error {
	for n := range 16 {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(n, &l); err != nil {
			return err
		}
		fmt.Println(n, l.Cur, l.Max)
	}
	return nil
}
