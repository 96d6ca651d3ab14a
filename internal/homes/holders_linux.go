package homes

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// holders names the processes that hold a lock on a directory, by /proc/locks (proc_locks(5)).
func holders(dir *os.File) string {
	var st unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Fstat(int(dir.Fd()), &st) != nil {
		return "a run"
	}
	inode := fmt.Sprintf(":%d", st.Ino)
	var pids []string
	for line := range strings.Lines(string(locks)) {
		const kind, pid, file = 1, 4, 5
		f := strings.Fields(line)
		if len(f) > file && f[kind] == "FLOCK" && strings.HasSuffix(f[file], inode) {
			pids = append(pids, f[pid])
		}
	}
	if len(pids) == 0 {
		return "a run"
	}
	return "process " + strings.Join(pids, ", ")
}

// fill takes what the kernel said from a FileInfo.
func fill(st *unix.Stat_t, info os.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		st.Blocks = sys.Blocks
	}
	return ok
}
