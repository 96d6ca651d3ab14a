// Command fingerprint has two roles. In a sandbox it prints all that a program can tell about where it runs. On the host it
// supervises one run of a bwrap: it prepares the host's files and the descriptors, and afterwards reports and ends what was left.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// procFd is the host's /proc, which the supervisor hands down: it describes a process in sandboxes without any /proc, too.
const procFd = 200

// readyFd is the end of a pipe on which hold says that it runs.
const readyFd = 201

func init() { runtime.LockOSThread() } // what the kernel keeps for a thread is asked of the first one

func main() {
	if len(os.Args) < 2 {
		die(printFacts(nil))
		return
	}
	words := os.Args[2:]
	switch os.Args[1] {
	case "supervise":
		die(supervise())
	case "exec":
		die(execStage(words[0]))
	case "own":
		die(own(words))
	case "hold":
		die(hold(words))
	case "exit":
		code, _ := strconv.Atoi(words[0])
		os.Exit(code)
	case "kill":
		die(killSelf(words[0]))
	case "nap":
		ms, _ := strconv.Atoi(words[0])
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "background":
		die(background(words))
	default:
		die(printFacts(os.Args[1:]))
	}
}

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fingerprint:", err)
		os.Exit(99)
	}
}

func printFacts(words []string) error {
	data, err := json.Marshal(map[string]any{"fingerprint": facts(words)})
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(data, '\n'))
	return err
}

// hold says that it runs and sleeps. With "exit N" it ends by itself a while after the supervisor has sent its signal.
func hold(words []string) error {
	signal.Reset()
	if _, err := unix.Write(readyFd, []byte{1}); err != nil {
		return err
	}
	if len(words) == 2 {
		fds := []unix.PollFd{{Fd: int32(readyFd)}} // POLLERR: nobody reads any more
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				break
			}
		}
		time.Sleep(300 * time.Millisecond)
		code, _ := strconv.Atoi(words[1])
		os.Exit(code)
	}
	unix.Close(readyFd)
	time.Sleep(30 * time.Second)
	return nil
}

func killSelf(word string) error {
	number, err := strconv.Atoi(word)
	if err != nil {
		return err
	}
	act := [4]uint64{} // SIG_DFL: the Go runtime would turn some signals into an exit status
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), pointer(&act), 0, 8, 0, 0)
	if err := unix.Kill(unix.Getpid(), syscall.Signal(number)); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	return nil
}

// background leaves a child that sleeps for some milliseconds and ends at once itself.
func background(words []string) error {
	ms, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	self := os.Args[0]
	_, err = syscall.ForkExec(self, []string{self, "nap", strconv.Itoa(ms)}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	return err
}
