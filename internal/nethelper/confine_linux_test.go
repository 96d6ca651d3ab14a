//go:build !cgo

package nethelper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/landlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// confinedVar says that this process confines itself and reports what it can still do.
const confinedVar = "NSRUN_TEST_HELPER_CONFINED"

func init() {
	if os.Getenv(confinedVar) != "" {
		confined()
		os.Exit(0)
	}
}

// attempts are what a helper in the hands of an attacker would try. Each is refused when the helper is confined, and works before, unless it needs more
// than an ordinary user has.
var attempts = []struct {
	name string
	try  func() error
}{
	{"start a program", func() error { return exec.Command("/bin/true").Run() }},
	{"read a file", func() error { _, err := os.ReadFile("/etc/passwd"); return err }},
	{"list a directory", func() error { _, err := os.ReadDir("/"); return err }},
	{"write a file", func() error {
		f, err := os.CreateTemp("", "nsrun-helper-")
		if err == nil {
			f.Close()
			os.Remove(f.Name())
		}
		return err
	}},
	{"remove a file", func() error { return notMissing(unix.Unlink("/tmp/nsrun-no-such-file")) }},
	{"change a mode", func() error { return notMissing(unix.Chmod("/tmp/nsrun-no-such-file", 0o777)) }},
	{"connect to a Unix socket", func() error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
		}
		return err
	}},
	{"listen", func() error {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	}},
	{"signal another process", func() error { return unix.Kill(os.Getpid(), 0) }},
	{"make memory executable", func() error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		return err
	}},
	{"trace", func() error { return notMissing(unix.PtraceAttach(1 << 30)) }},
	{"make a namespace", func() error { return unix.Unshare(0) }}, // of none, which anybody may
	{"a memory file", func() error {
		fd, err := unix.MemfdCreate("x", 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"a raw netlink socket", func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
}

// notMissing takes an error that says that there is no such file or process for success: the call was allowed.
func notMissing(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// confined prints one line for each attempt before and after, on several threads, and for what still has to work.
func confined() {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Println("listen:", err)
		return
	}
	for _, a := range attempts {
		fmt.Printf("before %s: %v\n", a.name, a.try())
	}
	if err := confine(); err != nil {
		fmt.Println("confine:", err)
		return
	}
	for range 8 {
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread() // a thread of its own, that ends with the goroutine
			defer close(done)
			for _, a := range attempts {
				fmt.Printf("after %s: %v\n", a.name, errors.Is(a.try(), fs.ErrPermission))
			}
		}()
		<-done
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := net.Dial("tcp4", l.Addr().String())
	fmt.Println("works dial:", err)
	if err == nil {
		c.Close()
	}
	_, err = net.InterfaceAddrs()
	fmt.Println("works addresses:", err)
	_, err = os.ReadFile("/etc/hosts")
	fmt.Println("works hosts:", err)
	_, err = os.ReadFile("/etc/resolv.conf")
	fmt.Println("works resolv.conf:", err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", "localhost")
	fmt.Println("works lookup:", err)
	runtime.GC()
}

func TestWhatTheConfinementRefuses(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), confinedVar+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	text := string(out)
	abi, _ := landlock.ABI()
	for _, a := range attempts {
		assert.Contains(t, text, "before "+a.name+": <nil>\n")
		if files := a.name == "read a file" || a.name == "list a directory"; files && abi == 0 {
			continue // without Landlock files can be read
		}
		assert.Equal(t, 8, strings.Count(text, "after "+a.name+": true\n"), a.name)
	}
	for _, works := range []string{"dial", "addresses", "hosts", "resolv.conf", "lookup"} {
		assert.Contains(t, text, "works "+works+": <nil>\n")
	}
}
