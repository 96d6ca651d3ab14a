package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func procActs() map[string]act {
	return map[string]act{
		"grep":          {2, grep},
		"nonempty":      {1, nonEmpty},
		"kallsyms":      {0, kallsyms},
		"devices":       {0, devices},
		"proc-has":      {1, procHas},
		"oom":           {0, func([]string) error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-1"), 0) }},
		"cgroup-mkdir":  {0, cgroupMkdir},
		"release-agent": {0, releaseAgent},
		"env-has":       {1, envHas},
		"fd-has":        {1, fdHas},
		"status":        {0, status},
		"threads":       {0, threads},
		"signal-init":   {0, signalInit},
		"works":         {0, works},
	}
}

// grep is reached if a file holds a text.
func grep(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if bytes.Contains(data, []byte(args[1])) {
		return nil
	}
	return blocked(unix.ENODATA, "%s does not hold it", args[0])
}

func nonEmpty(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return blocked(unix.ENODATA, "empty")
	}
	return reached("%.60q", data)
}

func kallsyms([]string) error {
	data, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(data), " ")
	if strings.Trim(first, "0") == "" {
		return blocked(unix.ENODATA, "addresses are zero")
	}
	return nil
}

// devices is reached if /dev holds more than a sandbox's should.
func devices([]string) error {
	return list([]string{"/dev", "null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr", "shm", "pts", "ptmx", "mqueue"})
}

// procHas is reached if a process with that word in its arguments can be seen.
func procHas(args []string) error {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		asks := bytes.Contains(data, []byte("proc-has")) // this process, or one that started it
		if !asks && bytes.Contains(data, []byte(args[0])) {
			return reached("%s", name)
		}
	}
	return blocked(unix.ESRCH, "not among %d processes", len(names))
}

// cgroups lists mount points of cgroup hierarchies, and where they usually are.
func cgroups() []string {
	places := []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"}
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, " - cgroup") {
			places = append(places, strings.Fields(line)[4])
		}
	}
	return places
}

func cgroupMkdir([]string) error {
	var first error
	for _, dir := range cgroups() {
		name := filepath.Join(dir, "nsrun-e2e")
		err := os.Mkdir(name, 0o755)
		if err == nil {
			_ = os.Remove(name)
			return reached("%s", name)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func releaseAgent([]string) error {
	first := error(blocked(unix.ENOENT, "no cgroup"))
	for _, dir := range cgroups() {
		err := open("w", filepath.Join(dir, "release_agent"))
		if err == nil {
			return reached("%s", dir)
		}
		first = err
	}
	return first
}

func envHas(args []string) error {
	for _, name := range args {
		if _, ok := os.LookupEnv(name); ok {
			return reached("%s", name)
		}
	}
	return blocked(unix.ENOENT, "not set")
}

// fdHas is reached if an open descriptor leads to a path with that text, or is none of the standard ones.
func fdHas(args []string) error {
	for fd := range 64 {
		target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && strings.Contains(target, args[0]) {
			return reached("%d is %s", fd, target)
		}
	}
	return blocked(unix.EBADF, "no such descriptor")
}

func status([]string) error {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	os.Stdout.Write(data)
	return silent
}

// threads prints the Seccomp line of each thread of this process, and of one that it executes.
func threads(args []string) error {
	var ready, all sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-end
		})
	}
	ready.Wait()
	names, _ := filepath.Glob("/proc/self/task/*/status")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, "Seccomp:") {
				fmt.Print(strings.Join(strings.Fields(line), " "), "\n")
			}
		}
	}
	close(end)
	all.Wait()
	if len(args) > 0 {
		return silent
	}
	cmd := exec.Command(os.Args[0], "threads", "again")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return err
	}
	return silent
}

// signalInit sends pid 1 what would end or stop it.
func signalInit([]string) error {
	for _, s := range []unix.Signal{unix.SIGSTOP, unix.SIGTERM, unix.SIGINT, unix.SIGKILL} {
		_ = unix.Kill(1, s)
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println("alive")
	return silent
}

// works does what every program may do, and is reached if all of it works.
func works([]string) error {
	if err := exec.Command(os.Args[0], "getcwd").Run(); err != nil {
		return err
	}
	var n int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			mu.Lock()
			defer mu.Unlock()
			n++
		})
	}
	all.Wait()
	epfd, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	efd, err := unix.Eventfd(1, 0)
	if err != nil {
		return err
	}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, efd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return err
	}
	if k, err := unix.EpollWait(epfd, make([]unix.EpollEvent, 1), 1000); k != 1 {
		return fmt.Errorf("epoll: %d, %v", k, err)
	}
	m, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if k, err := unix.Getrandom(m[:16], 0); k != 16 || slices.Max(m[:16]) == 0 {
		return fmt.Errorf("getrandom: %d, %v", k, err)
	}
	// rseq with a length that is wrong reaches the kernel: EINVAL, not ENOSYS.
	if _, _, errno := unix.RawSyscall(unix.SYS_RSEQ, 1, 1, 0); errno == unix.ENOSYS || errno == unix.EPERM {
		return errno
	}
	if n != 8 {
		return fmt.Errorf("%d of 8 threads", n)
	}
	return nil
}
