package landlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The kernel's constants, where x/sys has them, hold our table to account.
func TestTableAgreesWithKernelHeaders(t *testing.T) {
	for name, pair := range map[string][2]uint64{
		"execute": {uint64(Execute), unix.LANDLOCK_ACCESS_FS_EXECUTE}, "refer": {uint64(Refer), unix.LANDLOCK_ACCESS_FS_REFER},
		"truncate": {uint64(Truncate), unix.LANDLOCK_ACCESS_FS_TRUNCATE}, "ioctl_dev": {uint64(IoctlDev), unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		"make_sym": {uint64(MakeSym), unix.LANDLOCK_ACCESS_FS_MAKE_SYM}, "make_block": {uint64(MakeBlock), unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK},
		"resolve_unix": {uint64(ResolveUnix), unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
		"connect_tcp":  {uint64(ConnectTCP), unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}, "bind_tcp": {uint64(BindTCP), unix.LANDLOCK_ACCESS_NET_BIND_TCP},
		"connect_send_udp": {uint64(ConnectSendUDP), unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP},
		"scope_signal":     {uint64(ScopeSignal), unix.LANDLOCK_SCOPE_SIGNAL},
	} {
		assert.Equal(t, pair[1], pair[0], name)
	}
}

func TestLowerReadsWell(t *testing.T) {
	p := sys.Program{Trace: true}
	fit, _ := Fit(everything, 6)
	fit.Paths = append(fit.Paths, PathRule{Path: "/etc/hosts", Access: ReadExec, File: true, Optional: true})
	Lower(&p, fit)
	text := p.String()
	assert.Contains(t, text, `landlock_add_rule($1, LANDLOCK_RULE_PATH_BENEATH, {rx}, 0)`)
	assert.Contains(t, text, `landlock_add_rule($1, LANDLOCK_RULE_NET_PORT, {connect_tcp, 443}, 0)`)
	assert.Contains(t, text, `openat(AT_FDCWD, "/etc/hosts", O_PATH|O_NOFOLLOW|O_CLOEXEC) = $2, or ENOENT: skip 2`)
	assert.Contains(t, text, `{execute,read_file}`, "a file takes no directory rights")
	assert.Equal(t, 1, strings.Count(text, "landlock_restrict_self"))
}

// TestARuleThatGivesNoMoreIsLeftOut compares the rules that are made with those that a rule above makes superfluous.
func TestARuleThatGivesNoMoreIsLeftOut(t *testing.T) {
	rule := func(path string, access Access) PathRule { return PathRule{Path: path, Access: access, Exact: true} }
	read := ReadFile | ReadDir
	followed := rule("/etc/link", ReadFile)
	followed.Exact = false
	file := rule("/etc/file", read|MakeReg) // only ReadFile means something for a file
	file.File = true
	maybe := func(path string, access Access) PathRule {
		r := rule(path, access)
		r.Optional = true
		return r
	}
	rules := []PathRule{maybe("/opt", read), maybe("/opt/maybe", ReadFile), maybe("/opt/more", WriteFile), rule("/opt/must", ReadFile), maybe("/etc/maybe", ReadDir),
		rule("/etc", read), rule("/etc/same", ReadFile), rule("/etc/more", read|WriteFile), rule("/etc/more/less", WriteFile),
		rule("/etcetera", ReadFile), rule("/etc", ReadFile), followed, file, rule("/usr/a", read)}
	want := []string{"/opt", "/opt/more", "/opt/must", "/etc", "/etc/more", "/etcetera", "/etc", "/etc/link", "/usr/a"}
	made := func(rules []PathRule) (paths []string) {
		p := sys.Program{Trace: true}
		Build(&p, Ruleset{HandledFS: AllFS, Paths: rules})
		for _, m := range regexp.MustCompile(`openat2?\(AT_FDCWD, "([^"]*)"`).FindAllStringSubmatch(p.String(), -1) {
			paths = append(paths, m[1])
		}
		return paths
	}
	assert.Equal(t, want, made(rules))
	assert.Equal(t, append([]string{"/"}, "/etc/link", "/usr/a"), made(append([]PathRule{rule("/", AllFS&^Execute)}, followed, rule("/etc/same", ReadFile), rule("/usr/a", Execute))), "the root is above all")
}

// need skips a test on a kernel whose Landlock is older than abi; in CI that is a failure.
func need(t *testing.T, abi int) {
	t.Helper()
	have, err := ABI()
	if err == nil && have >= abi {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("CI must have Landlock ABI %d; this kernel has %d (%v)", abi, have, err)
	}
	t.Skipf("needs Landlock ABI %d; this kernel has %d (%v)", abi, have, err)
}

const childEnv = "NSRUN_TEST_LANDLOCK_CHILD"

// TestEnforced restricts a copy of this test binary and compares with the same acts unrestricted.
func TestEnforced(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		acts(dir, os.Getenv(childEnv+"_APPLY"))
		os.Exit(0)
	}
	need(t, 3)
	for _, apply := range []string{"", "1", "by name"} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "granted"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o644))
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnforced$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_APPLY="+apply)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		if apply == "" {
			assert.Equal(t, "read ok\nwrite ok\ngranted ok\ntruncate ok\n", string(out), "positive control")
			continue
		}
		assert.Equal(t, "read permission denied\nwrite permission denied\ngranted ok\ntruncate permission denied\n", string(out))
		assert.NoFileExists(t, filepath.Join(dir, "new"), "judged from outside")
		assert.FileExists(t, filepath.Join(dir, "granted", "new"))
		info, err := os.Stat(filepath.Join(dir, "secret"))
		require.NoError(t, err)
		assert.EqualValues(t, 1, info.Size())
	}
}

func acts(dir, apply string) {
	runtime.LockOSThread()
	if apply != "" {
		byName := apply == "by name"
		abi, err := ABI()
		if err == nil {
			r, _ := Fit(Ruleset{HandledFS: AllFS, Paths: []PathRule{{Path: filepath.Join(dir, "granted"), Access: ReadWrite, Exact: byName}}}, abi)
			r.ByName = byName
			err = Apply(r)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	say := func(what string, err error) {
		var errno unix.Errno
		if errors.As(err, &errno) {
			fmt.Println(what, errno)
		} else {
			fmt.Println(what, "ok")
		}
	}
	_, err := os.ReadFile(filepath.Join(dir, "secret"))
	say("read", err)
	say("write", os.WriteFile(filepath.Join(dir, "new"), nil, 0o644))
	say("granted", os.WriteFile(filepath.Join(dir, "granted", "new"), nil, 0o644))
	say("truncate", os.Truncate(filepath.Join(dir, "secret"), 0))
}

// TestAnExactRuleRefusesALinkOnTheWay with openat2 and without.
func TestAnExactRuleRefusesALinkOnTheWay(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir+"/real/below", 0o755))
	require.NoError(t, os.Symlink("real", dir+"/link"))
	need(t, 1)
	for _, byName := range []bool{false, true} {
		build := func(path string, optional bool) error {
			var p sys.Program
			Build(&p, Ruleset{HandledFS: Execute, ByName: byName, Paths: []PathRule{{Path: path, Access: Execute, Exact: true, Optional: optional}}})
			return p.Run()
		}
		for _, path := range []string{dir + "/real/below", "/", dir} {
			assert.NoError(t, build(path, false), "positive control: %s", path)
		}
		assert.NoError(t, build(dir+"/real/missing", true))
		assert.ErrorIs(t, build(dir+"/real/missing", false), unix.ENOENT)
		assert.Error(t, build(dir+"/link/below", true), "%v", byName)
	}
}

func TestAcceptsWhatItReports(t *testing.T) {
	need(t, 1)
	abi, err := ABI()
	require.NoError(t, err)
	assert.NoError(t, Accepts(abi))
}
