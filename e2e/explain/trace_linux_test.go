package explain

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/require"
)

// traced is a system call of a command, as strace prints it.
type traced struct {
	name  string
	args  []string
	paths []string // absolute and clean; or an address
	errno string   // empty if it succeeded
}

// pathArgs says where a call has its paths: pairs of arguments, for the directory and the path. The directory -1 is the current one.
var pathArgs = map[string][]int{
	"open": {-1, 0}, "creat": {-1, 0}, "openat": {0, 1}, "openat2": {0, 1}, "execve": {-1, 0}, "execveat": {0, 1}, "chdir": {-1, 0},
	"mkdir": {-1, 0}, "mkdirat": {0, 1}, "rmdir": {-1, 0}, "unlink": {-1, 0}, "unlinkat": {0, 1}, "mknod": {-1, 0}, "mknodat": {0, 1},
	"rename": {-1, 0, -1, 1}, "renameat": {0, 1, 2, 3}, "renameat2": {0, 1, 2, 3}, "link": {-1, 0, -1, 1}, "linkat": {0, 1, 2, 3},
	"symlink": {-1, 1}, "symlinkat": {1, 2}, "chmod": {-1, 0}, "fchmodat": {0, 1}, "fchmodat2": {0, 1}, "chown": {-1, 0}, "lchown": {-1, 0}, "fchownat": {0, 1},
	"truncate": {-1, 0}, "utime": {-1, 0}, "utimes": {-1, 0}, "utimensat": {0, 1},
	"stat": {-1, 0}, "lstat": {-1, 0}, "newfstatat": {0, 1}, "statx": {0, 1}, "access": {-1, 0}, "faccessat": {0, 1}, "faccessat2": {0, 1}, "readlink": {-1, 0}, "readlinkat": {0, 1},
}

// flagArgs says which argument has flags that matter to whether a call succeeds.
var flagArgs = map[string]int{"open": 1, "openat": 2, "unlinkat": 2, "newfstatat": 3, "statx": 2, "access": 1, "faccessat": 2, "faccessat2": 2, "linkat": 4, "renameat2": 4,
	"utimensat": 3, "fchownat": 4, "socket": 0}

// key is what a call asks for.
func (c traced) key() string {
	flags := ""
	if i, ok := flagArgs[c.name]; ok && i < len(c.args) {
		flags = c.args[i]
	}
	return strings.Join(append([]string{c.name, flags}, c.paths...), "\n") + "\n"
}

// looking are the calls that --explain=all adds.
var looking = strings.Fields("stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat")

// trace runs words under strace, by run, and returns the calls of argv and of its children, from the exec on.
func (w *world) trace(t *testing.T, run func(...string) *exec.Cmd, argv []string, words ...string) (calls []traced, out string) {
	t.Helper()
	file := w.aside + "/trace"
	require.NoError(t, os.RemoveAll(file))
	const dull = "!mmap,munmap,mprotect,brk,read,write,pread64,pwrite64,close,fstat,futex,rt_sigaction,rt_sigprocmask,lseek,madvise,getrandom"
	cmd := run(append([]string{"strace", "-f", "-y", "-q", "-s", "8192", "--pidns-translation", "-e", "signal=none", "-e", "trace=" + dull, "-o", file}, words...)...)
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	require.NoError(t, cmd.Start())
	testenv.Returns(t, "strace", func() { _ = cmd.Wait() })
	text, err := os.ReadFile(file)
	require.NoError(t, err, buf.String())
	calls = parseTrace(string(text), argv, w.work)
	require.NotEmpty(t, calls, "the trace has the command: %s", buf.String())
	return calls, buf.String()
}

var (
	line    = regexp.MustCompile(`^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$`)
	ending  = regexp.MustCompile(`\) += (-?\d+|\?)(?:<[^\n]*>)?(?: (E[A-Z0-9]+))?`)
	outside = regexp.MustCompile(`/\* (\d+) in strace's PID NS \*/`)
	address = regexp.MustCompile(`sin6?_port=htons\((\d+)\).*(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]*)"`)
	random  = regexp.MustCompile(`((?:^|/)(?:sed|Cu|fixed\.|cc|tmp\.))[A-Za-z0-9]{6}(\.\w)?$`) // a name of mktemp(3)
	socket  = regexp.MustCompile(`sun_path="([^"]*)"`)
)

// parseTrace keeps the calls of argv and its descendants. Its process begins in the directory cwd.
func parseTrace(text string, argv []string, cwd string) (calls []traced) {
	begun, dirs := map[string]string{}, map[string]string{} // by pid: a call that is not finished, and the current directory
	known := map[string]bool{}
	for l := range strings.Lines(text) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			continue
		}
		pid, name, rest := m[1], m[3], m[4]
		if dirs["next"] == "" {
			known[pid] = true // a process of nsrun's, or the command's first one
		}
		if m[2] != "" {
			name, rest = m[2], begun[pid]+rest
		}
		if before, ok := strings.CutSuffix(rest, "<unfinished ...>"); ok {
			begun[pid] = strings.TrimSuffix(before, " ")
			if slices.Contains([]string{"clone", "clone3", "fork", "vfork"}, name) && dirs[pid] != "" {
				dirs["next"] = dirs[pid] // its child is seen before it returns
			}
			continue
		}
		ends := ending.FindAllStringSubmatchIndex(rest, -1)
		if len(ends) == 0 {
			continue
		}
		at := ends[len(ends)-1]
		c := traced{name: name, args: splitArgs(rest[:at[0]])}
		if at[4] >= 0 {
			c.errno = rest[at[4]:at[5]]
		}
		dir := dirs[pid]
		if dir == "" && !known[pid] && dirs["next"] != "" {
			dir, dirs[pid] = dirs["next"], dirs["next"]
		}
		if dir == "" && name == "execve" && c.errno == "" && begins(c.args, argv) {
			dir, dirs[pid] = cwd, cwd
		}
		if dir == "" {
			continue // a process of nsrun's
		}
		if slices.Contains([]string{"clone", "clone3", "fork", "vfork"}, name) && c.errno == "" {
			child := outside.FindStringSubmatch(rest)
			if n := rest[at[2]:at[3]]; child == nil {
				child = []string{"", n}
			}
			if dirs[child[1]] == "" {
				dirs[child[1]] = dir
			}
		}
		c.resolve(dir)
		if name == "chdir" && c.errno == "" {
			dirs[pid] = c.paths[0]
		}
		if name == "fchdir" && c.errno == "" {
			dirs[pid] = directoryOf(c.args[0], dir)
		}
		calls = append(calls, c)
	}
	return calls
}

// begins reports whether an execve has these words, or has words that strace may not read: those of the process that executes an ordinary user's
// command, before it does.
func begins(args, argv []string) bool {
	return len(args) > 1 && (args[1] == argvText(argv) || strings.HasPrefix(args[1], "0x"))
}

// argvText is how strace prints words.
func argvText(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(a) + `"`
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// splitArgs splits what stands between a call's parentheses.
func splitArgs(s string) (args []string) {
	depth, quoted, begin := 0, false, 0
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case quoted:
			if b == '\\' {
				i++
			} else if b == '"' {
				quoted = false
			}
		case b == '"':
			quoted = true
		case strings.IndexByte("([{", b) >= 0:
			depth++
		case strings.IndexByte(")]}", b) >= 0:
			depth--
		case b == ',' && depth == 0:
			args, begin = append(args, strings.TrimSpace(s[begin:i])), i+1
		}
	}
	return append(args, strings.TrimSpace(s[begin:]))
}

// directoryOf is the path that strace -y prints behind a descriptor.
func directoryOf(arg, cwd string) string {
	if _, name, ok := strings.Cut(arg, "<"); ok {
		return name[:max(strings.LastIndex(name, ">"), 0)]
	}
	return cwd
}

// resolve sets the paths of a call.
func (c *traced) resolve(cwd string) {
	where := pathArgs[c.name]
	for i := 0; i < len(where); i += 2 {
		if where[i+1] >= len(c.args) {
			continue
		}
		name, err := strconv.Unquote(c.args[where[i+1]])
		name = random.ReplaceAllString(name, "${1}XXXXXX")
		if err != nil || name == "" {
			continue
		}
		if dir := cwd; !path.IsAbs(name) {
			if where[i] >= 0 {
				dir = directoryOf(c.args[where[i]], cwd)
			}
			name = dir + "/" + name
		}
		c.paths = append(c.paths, path.Clean(name))
	}
	if (c.name == "connect" || c.name == "bind") && len(c.args) > 1 {
		if m := socket.FindStringSubmatch(c.args[1]); m != nil {
			name := m[1]
			if !path.IsAbs(name) {
				name = cwd + "/" + name
			}
			c.paths = []string{path.Clean(name)}
		} else if m := address.FindStringSubmatch(c.args[1]); m != nil {
			ip, err := netip.ParseAddr(m[2])
			port, err2 := strconv.Atoi(m[1])
			if err == nil && err2 == nil {
				c.paths = []string{netip.AddrPortFrom(ip.Unmap(), uint16(port)).String()}
			}
		}
	}
}

// TestParseTrace: calls that are interrupted, directories, and children.
func TestParseTrace(t *testing.T) {
	const text = `10 execve("/usr/bin/nsrun", ["nsrun", "x"], 0x7 /* 3 vars */) = 0
11 execve("/nowhere/x", ["x", "a b"], 0x7 /* 3 vars */) = -1 ENOENT (No such file or directory)
11 execve("/usr/bin/x", ["x", "a b"], 0x7 /* 3 vars */) = 0
11 openat(AT_FDCWD</w>, "f, (g", O_RDONLY) = 3</w/f, (g>
11 mkdir("d", 0777 <unfinished ...>
10 openat(AT_FDCWD</w>, "of nsrun", O_RDONLY) = -1 ENOENT (No such file or directory)
11 <... mkdir resumed>)              = -1 EROFS (Read-only file system)
11 chdir("e")                        = 0
11 vfork( <unfinished ...>
11 <... vfork resumed>)              = 2 /* 12 in strace's PID NS */
12 renameat2(AT_FDCWD</w/e>, "a", 3</q>, "b", RENAME_NOREPLACE) = 0
12 rmdir("../d")                      = 0
12 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("192.0.2.1")}, 16) = -1 ENETUNREACH (Network is unreachable)
`
	var got []string
	for _, c := range parseTrace(text, []string{"x", "a b"}, "/w") {
		got = append(got, strings.TrimSpace(c.name+" "+strings.Join(c.paths, " ")+" "+c.errno))
	}
	require.Equal(t, []string{"execve /usr/bin/x", "openat /w/f, (g", "mkdir /w/d EROFS", "chdir /w/e", "vfork", "renameat2 /w/e/a /q/b", "rmdir /w/d", "connect 192.0.2.1:80 ENETUNREACH"}, got)
}
