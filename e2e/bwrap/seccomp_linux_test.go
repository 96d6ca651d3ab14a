package bwrap_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	allow = uint32(0x7fff0000)
	trap  = uint32(0x00030000)
	kill  = uint32(0x80000000)
	errno = uint32(0x00050000)
)

// filter is a program that answers one way to some calls and another to all else. It does not look at the architecture.
func filter(listed, other uint32, calls ...int) choiceFd {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for i, call := range calls {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(calls) - i), K: uint32(call)})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: other}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: listed})
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, code)
	return raw(b.Bytes())
}

// choiceFd is what to open for a descriptor.
type choiceFd string

func raw(data []byte) choiceFd { return choiceFd("base64:" + base64.StdEncoding.EncodeToString(data)) }

func at(n int, what choiceFd) choice { return fd(n, string(what)) }

// init1 are the calls that a reaper in C makes; command adds what a small program makes to start and end.
var (
	init1   = []int{sysWait4, sysWrite, sysClose, sysExitGroup}
	command = append([]int{sysExecve, sysBrk, sysMmap, sysMprotect, sysMunmap, sysOpenat, sysNewfstatat, sysFstat,
		sysPread64, sysRead, sysAccess, sysArchPrctl, sysSetTidAddress, sysSetRobustList, sysRseq,
		sysPrlimit64, sysGetrandom, sysLseek, sysIoctl}, init1...)
)

func seccompScenes() []scene {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	all := "--ro-bind / / "
	open := filter(allow, allow)
	noMkdir := filter(errno|uint32(unix.EXDEV), allow, sysMkdir, sysMkdirat)
	noHost := filter(errno|uint32(unix.EMLINK), allow, sysUname)
	set := filter(allow, trap, command...)
	return []scene{
		c("allow", "{BASE} --seccomp 9 {FP}", at(9, open)),
		c("allow-pid", "{BASE} --unshare-pid --seccomp 9 {FP}", at(9, open)),
		c("allow-dwp", "{BASE} --unshare-pid --die-with-parent --new-session --seccomp 9 {FP}", at(9, open)),
		c("errno", all+"--seccomp 9 mkdir /x", at(9, noMkdir)),
		c("errno-not-setup", "{BASE} --seccomp 9 --dir /a/b {FP} list=/a", at(9, noMkdir)),
		c("two", "{BASE} --add-seccomp-fd 9 --add-seccomp-fd 10 --unshare-pid {FP}", at(9, open), at(10, noHost)),
		c("two-init", all+"--add-seccomp-fd 9 --add-seccomp-fd 10 --unshare-pid --proc /proc sh -c '"+initWaits+"exec grep Secc /proc/1/status /proc/self/status'", at(9, open), at(10, noHost)),
		c("three", "{BASE} --add-seccomp-fd 9 --add-seccomp-fd 10 --add-seccomp-fd 11 {FP}", at(9, open), at(10, open), at(11, open)),
		c("add-same-fd", "{BASE} --add-seccomp-fd 9 --add-seccomp-fd 9 {FP}", at(9, open)),
		c("mixed", "{BASE} --seccomp 9 --add-seccomp-fd 10 {FP}", at(9, open), at(10, open)),
		c("mixed-other", "{BASE} --add-seccomp-fd 10 --seccomp 9 {FP}", at(9, open), at(10, open)),
		c("twice", "{BASE} --seccomp 9 --seccomp 10 {FP}", at(9, noHost), at(10, open)),
		c("trap-list", all+"--seccomp 9 true", at(9, set)),
		c("trap-list-pid", all+"--unshare-pid --seccomp 9 true", at(9, set)),
		c("trap-list-all", all+"--unshare-all --die-with-parent --dev /dev --seccomp 9 true", at(9, set)),
		c("trap-list-false", all+"--unshare-pid --seccomp 9 false", at(9, set)),
		c("trap-list-stdout", all+"--unshare-all --seccomp 9 cat", at(9, filter(allow, trap, append([]int{sysFadvise64}, command...)...)), stdin("through")),
		c("trap-list-lock", all+"--lock-file /etc/passwd --seccomp 9 true", at(9, set)),
		c("trap-list-status", all+"--unshare-pid --json-status-fd 10 --seccomp 9 false", at(9, set), out(10)),
		c("trap-execve", all+"--unshare-pid --seccomp 9 true", at(9, filter(trap, allow, sysExecve))),
		c("errno-execve", all+"--unshare-pid --json-status-fd 10 --seccomp 9 true", at(9, filter(errno|uint32(unix.EPERM), allow, sysExecve)), out(10)),
		c("errno-wait4", all+"--unshare-pid --seccomp 9 true", at(9, filter(errno|uint32(unix.EPERM), allow, sysWait4))),
		c("errno-write", all+"--unshare-pid --seccomp 9 false", at(9, filter(errno|uint32(unix.EPERM), allow, unix.SYS_WRITE))),
		c("trap-wait4", all+"--unshare-pid --seccomp 9 true", at(9, filter(trap, allow, sysWait4))),
		c("errno-prctl", all+"--unshare-pid --die-with-parent --seccomp 9 true", at(9, filter(errno|uint32(unix.EPERM), allow, sysPrctl))),
		c("errno-prctl-two", all+"--unshare-pid --add-seccomp-fd 9 --add-seccomp-fd 10 true", at(9, filter(errno|uint32(unix.EPERM), allow, sysPrctl, sysSeccomp)), at(10, open), racy),
		c("kill-command", all+"--unshare-pid --json-status-fd 10 --seccomp 9 true", at(9, filter(kill, allow, sysBrk)), out(10)),
		c("kill-all", all+"--unshare-pid --json-status-fd 10 --seccomp 9 true", at(9, filter(kill, kill)), out(10)),
		c("errno-all", all+"--unshare-pid --json-status-fd 10 --seccomp 9 true", at(9, filter(errno|1, errno|1)), out(10)),
		c("errno-all-no-pid", all+"--json-status-fd 10 --seccomp 9 true", at(9, filter(errno|1, errno|1)), out(10)),
		c("allow-execve-only", all+"--unshare-pid --seccomp 9 true", at(9, filter(allow, errno|1, sysExecve))),
		c("runtime-of-go", all+"--unshare-pid --seccomp 9 true", at(9, filter(trap, allow, sysSigaltstack, sysNanosleep, sysFutex, sysEpollPwait,
			sysEpollCreate1, sysWaitid, sysRtSigaction, sysClone3, sysMadvise, sysSchedYield, sysTgkill, sysGettid))),
		c("empty", "{BASE} --seccomp 9 {FP}", fd(9, "data:")),
		c("empty-add", "{BASE} --add-seccomp-fd 9 {FP}", fd(9, "data:")),
		c("short", "{BASE} --seccomp 9 {FP}", fd(9, "data:1234567")),
		c("short-add", "{BASE} --add-seccomp-fd 9 {FP}", fd(9, "data:1234567")),
		c("long", "{BASE} --seccomp 9 {FP}", fd(9, "data:"+strings.Repeat("x", 9))),
		c("invalid", "{BASE} --seccomp 9 {FP}", fd(9, "data:"+strings.Repeat("x", 64))),
		c("invalid-pid", "{BASE} --unshare-pid --json-status-fd 10 --seccomp 9 {FP}", fd(9, "data:"+strings.Repeat("x", 64)), out(10), racy),
		c("invalid-add", "{BASE} --add-seccomp-fd 9 {FP}", fd(9, "data:"+strings.Repeat("x", 64))),
		c("directory", "{BASE} --seccomp 9 {FP}", fd(9, "dir:/")),
		c("directory-add", "{BASE} --add-seccomp-fd 9 {FP}", fd(9, "dir:/")),
		c("too-many", "{BASE} --seccomp 9 {FP}", at(9, raw(bytes.Repeat([]byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}, 4097)))),
		c("most", "{BASE} --seccomp 9 {FP}", at(9, raw(bytes.Repeat([]byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}, 4096)))),
		c("as-pid-1", "{BASE} --unshare-pid --as-pid-1 --seccomp 9 {FP}", at(9, open)),
		c("caps", "{BASE} --unshare-user --uid 0 --cap-add ALL --seccomp 9 {FP}", at(9, open)),
	}
}

// The numbers of amd64; the package of system calls has some of them only there.
const (
	sysAccess        = 21
	sysArchPrctl     = 158
	sysBrk           = 12
	sysClone3        = 435
	sysClose         = 3
	sysEpollCreate1  = 291
	sysEpollPwait    = 281
	sysExecve        = 59
	sysExitGroup     = 231
	sysFadvise64     = 221
	sysFstat         = 5
	sysFutex         = 202
	sysGetrandom     = 318
	sysGettid        = 186
	sysIoctl         = 16
	sysLseek         = 8
	sysMadvise       = 28
	sysMkdir         = 83
	sysMkdirat       = 258
	sysMmap          = 9
	sysMprotect      = 10
	sysMunmap        = 11
	sysNanosleep     = 35
	sysNewfstatat    = 262
	sysOpenat        = 257
	sysPrctl         = 157
	sysPread64       = 17
	sysPrlimit64     = 302
	sysRead          = 0
	sysRseq          = 334
	sysRtSigaction   = 13
	sysSchedYield    = 24
	sysSeccomp       = 317
	sysSetRobustList = 273
	sysSetTidAddress = 218
	sysSigaltstack   = 131
	sysTgkill        = 234
	sysUname         = 63
	sysWait4         = 61
	sysWaitid        = 247
	sysWrite         = 1
)
