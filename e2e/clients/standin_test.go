package clients_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// standin calls bwrap in the way of a client that is too much to install: its words, and above all what it does with descriptors.
type standin struct {
	name   string
	only   string // the person, if not all
	before string // words before bwrap
	words  string // of bwrap; {NAME} is a descriptor of gives, {ARGS} that of args
	args   string // words that go by a sealed memfd, as flatpak sends them
	gives  []give
	lay    map[string]string
	cwd    string
	script string // what runs in the sandbox
	input  string
	socket bool   // input comes by a socket
	want   string // is in what the script prints; all of it has to be the same with both engines
}

// give is a descriptor for bwrap.
type give struct {
	name string
	data string // in a sealed memfd; or
	info string // what is read back: "file" when bwrap has ended, "pipe" while the command still runs
}

// refuseChmod is a seccomp filter.
var refuseChmod = give{name: "SECCOMP", data: filter(
	unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
	unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FCHMODAT, Jf: 1},
	unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EDOM)},
	unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
)}

// allowFew traps all but what a shell that becomes cat calls, and its loader, as glycin's filter does. Pid 1 in the sandbox has it, too.
var allowFew = give{name: "SECCOMP", data: only(append([]uint32{
	unix.SYS_BRK, unix.SYS_CLOSE, unix.SYS_EXECVE, unix.SYS_EXIT_GROUP, unix.SYS_FACCESSAT, unix.SYS_FADVISE64, unix.SYS_FSTAT, unix.SYS_GETEGID, unix.SYS_GETEUID,
	unix.SYS_GETGID, unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETRANDOM, unix.SYS_GETUID, unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP,
	unix.SYS_NEWFSTATAT, unix.SYS_OPENAT, unix.SYS_PREAD64, unix.SYS_PRLIMIT64, unix.SYS_READ, unix.SYS_RSEQ, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_WAIT4, unix.SYS_WRITE,
}, onlyHere[runtime.GOARCH]...)...)}

// onlyHere are calls that not every architecture has.
var onlyHere = map[string][]uint32{"amd64": {21 /* access */, 158 /* arch_prctl */}}

// only is a filter that traps all calls but those of these numbers.
func only(numbers ...uint32) string {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for i, n := range numbers {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jt: uint8(len(numbers) - i)})
	}
	return filter(append(program, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_TRAP}, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW})...)
}

func filter(program ...unix.SockFilter) string {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, program); err != nil {
		panic("bug: " + err.Error())
	}
	return b.String()
}

func TestStandins(t *testing.T) {
	if len(built.engines) < 2 {
		t.Skip(built.why)
	}
	for _, p := range people() {
		for _, s := range standins() {
			if s.only != "" && s.only != p.name {
				continue
			}
			t.Run(p.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				outcomes := map[string]facts{}
				for _, e := range built.engines {
					outcomes[e.name] = s.check(t, p, e)
				}
				assert.Equal(t, outcomes["bubblewrap"], outcomes["nsrun"], "bubblewrap is expected, nsrun is actual")
			})
		}
	}
}

func (s standin) check(t *testing.T, p person, e engine) facts {
	j, err := newJob(p, e, s.name, "")
	require.NoError(t, err)
	defer func() { assert.NoError(t, j.close()) }()
	require.NoError(t, j.lay(s.lay))
	f, err := s.act(j)
	require.NoError(t, err, e.name)
	assert.Equal(t, "0", f["exit"], "%s: %v", e.name, f)
	assert.Contains(t, f["stdout"], s.want, "%s", e.name)
	assert.Empty(t, j.left(), "%s: processes that outlive the client", e.name)
	return f
}

// act runs the stand-in as its client would.
func (s standin) act(j *job) (facts, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Limit(0))
	defer cancel()
	var files []*os.File
	defer func() { closeAll(files) }()
	names := []string{"{BWRAP}", j.engine.path}
	all := append([]give{{name: "ARGS", data: ""}}, s.gives...)
	reads := map[string]*os.File{}
	for i, g := range all {
		names = append(names, "{"+g.name+"}", fmt.Sprint(3+i))
	}
	fill := strings.NewReplacer(names...).Replace
	all[0].data = j.fill(strings.Join(strings.Fields(fill(s.args)), "\x00"))
	for _, g := range all {
		theirs, ours, err := g.open(j)
		if err != nil {
			return nil, err
		}
		files = append(files, theirs)
		if ours != nil {
			reads[g.info] = ours
			defer ours.Close()
		}
	}
	line := strings.Fields(s.before + " {BWRAP} " + s.words)
	for i := range line {
		line[i] = fill(line[i])
	}
	cmd := j.command(ctx, append(line, "/bin/sh", "-c", s.script)...)
	cmd.ExtraFiles = files
	cmd.Dir = j.path(s.cwd)
	return s.converse(j, cmd, files, reads)
}

// converse starts the command, reads what is to be read before it ends, sends input, and says what came of it.
func (s standin) converse(j *job, cmd *exec.Cmd, files []*os.File, reads map[string]*os.File) (facts, error) {
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	theirs, ours, err := s.pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = theirs
	err = cmd.Start()
	theirs.Close()
	closeAll(files) // or the pipe would never end
	if err != nil {
		ours.Close()
		return nil, err
	}
	f := facts{}
	if r := reads["pipe"]; r != nil {
		f["info"] = running(r)
	}
	_, err = io.WriteString(ours, s.input)
	ours.Close()
	_ = cmd.Wait()
	if err != nil {
		return nil, fmt.Errorf("input: %w: %s", err, complaint.String())
	}
	if r := reads["file"]; r != nil {
		f["info"] = keys(r)
	}
	f["exit"], f["stdout"], f["stderr"] = fmt.Sprint(cmd.ProcessState.ExitCode()), j.blank(out.String()), j.blank(complaint.String())
	return f, nil
}

// pipe returns the ends of the command's input.
func (s standin) pipe() (theirs, ours *os.File, err error) {
	if !s.socket {
		return os.Pipe()
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "theirs"), os.NewFile(uintptr(pair[1]), "ours"), nil
}

// open returns what bwrap gets, and the other end if there is one.
func (g give) open(j *job) (theirs, ours *os.File, err error) {
	switch g.info {
	case "pipe":
		ours, theirs, err = os.Pipe()
		return theirs, ours, err
	case "file":
		if theirs, err = os.Create(j.path("info.json")); err != nil {
			return nil, nil, err
		}
		ours, err = os.Open(j.path("info.json"))
		return theirs, ours, err
	}
	fd, err := unix.MemfdCreate(g.name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(fd), g.name)
	if _, err := theirs.WriteString(g.data); err != nil {
		return theirs, nil, err
	}
	if _, err := theirs.Seek(0, io.SeekStart); err != nil {
		return theirs, nil, err
	}
	_, err = unix.FcntlInt(theirs.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	return theirs, nil, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// keys reads the document of --info-fd to its end and returns what it tells about.
func keys(r io.Reader) string {
	var info map[string]int
	data, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return fmt.Sprintf("%v: %q", err, data)
	}
	return strings.Join(slices.Sorted(maps.Keys(info)), " ")
}

// running is keys, and whether the process that is told of is there, in the namespaces that are told of.
func running(r io.Reader) string {
	data, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	var info map[string]int
	if err := json.Unmarshal(data, &info); err != nil {
		return fmt.Sprintf("%v: %q", err, data)
	}
	said := keys(bytes.NewReader(data))
	for _, kind := range []string{"net", "pid", "mnt"} {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", info["child-pid"], kind))
		if err != nil {
			said += " " + err.Error()
		}
		if number, told := info[kind+"-namespace"]; told && link != fmt.Sprintf("%s:[%d]", kind, number) {
			said += fmt.Sprintf(" %s is %s, not %d", kind, link, number)
		}
	}
	return said
}
