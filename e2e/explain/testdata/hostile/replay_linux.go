package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// flagNames are those of strace.
var flagNames = map[string]int{
	"O_RDONLY": unix.O_RDONLY, "O_WRONLY": unix.O_WRONLY, "O_RDWR": unix.O_RDWR, "O_CREAT": unix.O_CREAT, "O_EXCL": unix.O_EXCL, "O_TRUNC": unix.O_TRUNC, "O_APPEND": unix.O_APPEND,
	"O_DIRECTORY": unix.O_DIRECTORY, "O_NOFOLLOW": unix.O_NOFOLLOW, "O_PATH": unix.O_PATH, "O_CLOEXEC": unix.O_CLOEXEC, "O_NONBLOCK": unix.O_NONBLOCK, "O_NOCTTY": unix.O_NOCTTY,
	"O_NOATIME": unix.O_NOATIME, "O_TMPFILE": unix.O_TMPFILE, "O_LARGEFILE": 0, "F_OK": 0, "R_OK": unix.R_OK, "W_OK": unix.W_OK, "X_OK": unix.X_OK, "AT_EACCESS": unix.AT_EACCESS,
	"AT_SYMLINK_NOFOLLOW": unix.AT_SYMLINK_NOFOLLOW, "AT_SYMLINK_FOLLOW": unix.AT_SYMLINK_FOLLOW, "AT_REMOVEDIR": unix.AT_REMOVEDIR, "AT_NO_AUTOMOUNT": unix.AT_NO_AUTOMOUNT,
	"AT_STATX_SYNC_AS_STAT": 0, "RENAME_NOREPLACE": unix.RENAME_NOREPLACE, "RENAME_EXCHANGE": unix.RENAME_EXCHANGE,
}

func flags(text string) (all int) {
	for _, word := range strings.Split(text, "|") {
		flag, ok := flagNames[word]
		if n, err := strconv.ParseInt(word, 0, 64); err == nil {
			flag, ok = int(n), true
		}
		if !ok && word != "" {
			check(fmt.Errorf("a flag %q", word))
		}
		all |= flag
	}
	return all
}

// replay makes calls one after the other, each given as its name, flags and absolute paths with a line end behind each, and prints what they come to.
func replay(args []string) {
	for _, arg := range args {
		f := strings.Split(strings.TrimSuffix(arg, "\n"), "\n")
		err := error(nil)
		if f[0] == "socket" {
			err = replaySocket(f[1])
		} else {
			err = replayOne(f[0], flags(f[1]), f[2], f[len(f)-1])
		}
		var errno unix.Errno
		switch {
		case err == nil:
			fmt.Println("OK")
		case errors.As(err, &errno):
			fmt.Println(unix.ErrnoName(errno))
		default:
			fmt.Println(err)
		}
	}
	os.Exit(0)
}

func replaySocket(family string) error {
	n, ok := map[string]int{"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK}[family]
	if !ok {
		return fmt.Errorf("cannot replay a socket of %s", family)
	}
	fd, err := unix.Socket(n, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func replayOne(name string, flags int, path, second string) error {
	const cwd = unix.AT_FDCWD
	var st unix.Stat_t
	switch name {
	case "open", "openat", "openat2":
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	case "execve", "execveat":
		if err := unix.Stat(path, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return unix.EACCES
		}
		return unix.Access(path, unix.X_OK)
	case "chdir":
		return unix.Chdir(path)
	case "mkdir", "mkdirat":
		return unix.Mkdir(path, 0o700)
	case "rmdir":
		return unix.Rmdir(path)
	case "unlink", "unlinkat":
		return unix.Unlinkat(cwd, path, flags)
	case "rename", "renameat", "renameat2":
		return unix.Renameat2(cwd, path, cwd, second, uint(flags))
	case "link", "linkat":
		return unix.Linkat(cwd, path, cwd, second, flags)
	case "symlink", "symlinkat":
		return unix.Symlinkat("target", cwd, path)
	case "mknod", "mknodat":
		return unix.Mkfifo(path, 0o600)
	case "chmod", "fchmodat":
		return unix.Chmod(path, 0o600)
	case "chown", "lchown", "fchownat":
		return unix.Fchownat(cwd, path, -1, os.Getegid(), flags)
	case "truncate":
		return unix.Truncate(path, 1)
	case "utime", "utimes", "utimensat":
		return unix.UtimesNanoAt(cwd, path, make([]unix.Timespec, 2), flags)
	case "stat", "lstat", "newfstatat", "statx":
		if name == "lstat" {
			flags = unix.AT_SYMLINK_NOFOLLOW
		}
		return unix.Fstatat(cwd, path, &st, flags&unix.AT_SYMLINK_NOFOLLOW)
	case "access", "faccessat", "faccessat2":
		return unix.Access(path, uint32(flags&7))
	case "readlink", "readlinkat":
		_, err := unix.Readlink(path, make([]byte, 4096))
		return err
	}
	return fmt.Errorf("cannot replay %s", name)
}
