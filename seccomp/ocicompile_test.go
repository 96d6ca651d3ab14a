//go:build libseccomp && cgo && linux

package seccomp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOurOwnJSONComesBack compiles what OCI writes: what is allowed is exactly the same.
func TestOurOwnJSONComesBack(t *testing.T) {
	arch, err := Host()
	require.NoError(t, err)
	for _, name := range Names() {
		p, err := Lookup(name)
		require.NoError(t, err)
		data, err := OCI(p, arch)
		require.NoError(t, err)
		got, err := CompileOCI(data, arch)
		require.NoError(t, err)
		want, err := Builtin(name, arch)
		require.NoError(t, err)
		for _, r := range rows {
			if nr, ok := arch.Number(r.call); ok {
				d := Data{NR: nr, Arch: arch.Audit(), Args: r.args}
				if run(want, d) == Allow && nr > 449 { // newer than Debian 12's libseccomp
					continue
				}
				assert.Equal(t, run(want, d) == Allow, run(got, d) == Allow, "%s: %s%x", name, r.call, r.args)
			}
		}
		assert.Equal(t, Kill, run(got, Data{NR: 0, Arch: 0x40000003}), "i386")
	}
}

func TestCompileOCI(t *testing.T) {
	const profile = `{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "architectures": ["SCMP_ARCH_X86_64"], "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
		"syscalls": [
			{"names": ["read", "write", "no_such_call"], "action": "SCMP_ACT_ALLOW"},
			{"name": "socket", "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}], "comment": "x"},
			{"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
			{"names": ["chroot"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "excludes": {"caps": ["CAP_SYS_CHROOT"]}},
			{"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
			{"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "99.0"}},
			{"names": ["acct"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["s390x"]}},
			{"names": ["reboot"], "action": "SCMP_ACT_KILL_PROCESS"}]}`
	arch, err := Host()
	require.NoError(t, err)
	f, err := CompileOCI([]byte(profile), arch)
	require.NoError(t, err)
	for call, want := range map[string]Action{"read": Allow, "mount": enosys, "chroot": eperm, "ptrace": Allow, "bpf": enosys, "acct": enosys, "reboot": Kill, "openat": enosys} {
		nr, ok := arch.Number(call)
		require.True(t, ok)
		assert.Equal(t, want.String(), run(f, Data{NR: nr, Arch: arch.Audit()}).String(), call)
	}
	nr, _ := arch.Number("socket")
	assert.Equal(t, Allow, run(f, Data{NR: nr, Arch: arch.Audit(), Args: a(1)}))
	assert.Equal(t, enosys, run(f, Data{NR: nr, Arch: arch.Audit(), Args: a(2)}))
	for text, want := range map[string]string{
		`{`: "unexpected EOF", `{}`: `defaultAction: "" is not one of`, `{"defaultAction":"SCMP_ACT_TRACE"}`: "is not one of", `{"defaultaction":"x","y":1}`: "unknown field",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mountt"],"action":"SCMP_ACT_ERRNO"}]}`:                                      "mountt is not known to this libseccomp, and would be allowed",
		`{"defaultAction":"SCMP_ACT_ALLOW"} {}`:                                                                                               "something stands after it",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO","errnoRet":70000}]}`:                       "syscalls[0]: action: errnoRet 70000",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_KILL","args":[{"index":0,"op":"EQ"}]}]}`:          `args[0]: op "EQ" is unknown`,
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_KILL","includes":{"minKernel":"x"}}]}`:            "minKernel",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_KILL","args":[{"index":9,"op":"SCMP_CMP_EQ"}]}]}`: "args[0]",
	} {
		_, err := CompileOCI([]byte(text), arch)
		assert.ErrorContains(t, err, want, text)
	}
}
