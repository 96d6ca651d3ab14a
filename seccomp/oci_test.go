package seccomp

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answer is the naive reading of an OCI profile: alternatives are several rules, and no two rules that apply may differ.
func (o *ociProfile) answer(t *testing.T, name string, args [6]uint64) string {
	found := ""
	for _, r := range o.Syscalls {
		if !slices.Contains(r.Names, name) {
			continue
		}
		applies := true
		for _, c := range r.Args {
			require.Equal(t, "SCMP_CMP_MASKED_EQ", c.Op)
			applies = applies && args[c.Index]&c.Value == c.ValueTwo
		}
		if applies {
			require.True(t, found == "" || found == r.Action, "%s: two rules apply and differ", name)
			found = r.Action
		}
	}
	if found == "" {
		return o.DefaultAction
	}
	return found
}

// checkOCI makes sure that the JSON allows exactly what the profile does, and kills where that does.
func checkOCI(t *testing.T, p Profile, arch Arch, combinations int, extra ...string) {
	data, err := OCI(p, arch, extra...)
	require.NoError(t, err)
	var o ociProfile
	require.NoError(t, json.Unmarshal(data, &o))
	require.Equal(t, []string{ociArch(arch)}, o.Architectures, "calls of other architectures must be killed")
	require.NotContains(t, []string{"SCMP_ACT_ALLOW", "SCMP_ACT_LOG"}, o.DefaultAction)
	for _, r := range o.Syscalls {
		var seen [6]bool
		for _, c := range r.Args {
			require.False(t, seen[c.Index], "%v: two conditions on an argument, which runc makes alternatives of", r.Names)
			seen[c.Index] = true
		}
	}
	f, err := Compile(p, arch)
	require.NoError(t, err)
	entries, err := p.entries(arch)
	require.NoError(t, err)
	for _, e := range entries {
		for _, args := range edges(e.rule, combinations) {
			exact := run(f, Data{NR: e.nr, Arch: arch.Audit(), Args: args})
			got := o.answer(t, e.name, args)
			want := exact == Allow || slices.Contains(extra, e.name)
			if want != (got == "SCMP_ACT_ALLOW") {
				t.Errorf("%s %x: the JSON says %s, the profile %s", e.name, args, got, exact)
			}
			if exact.kills() && !want && got == "SCMP_ACT_ERRNO" {
				t.Errorf("%s %x: the JSON says %s, the profile %s", e.name, args, got, exact)
			}
		}
	}
}

func (a Action) kills() bool { return a&actionFull == Kill || a&actionFull == actionKillThread }

func TestOCIAllowsWhatTheProfileAllows(t *testing.T) {
	for _, name := range Names() {
		for _, arch := range Arches() {
			t.Run(name+"/"+arch.String(), func(t *testing.T) {
				p, err := Lookup(name)
				require.NoError(t, err)
				checkOCI(t, p, arch, many)
				checkOCI(t, p, arch, 10, "keyctl", "mount")
			})
		}
	}
}

func TestOCIRefusesWhatItCannotSay(t *testing.T) {
	some := []Case{{If: []Cond{{Arg: 0, In: []uint32{1}}}, Action: Allow}}
	for name, p := range map[string]Profile{
		"a default that allows": {Default: Allow},
		"a default that logs":   {Default: actionLog},
		"killing some arguments of a call that is refused otherwise": {Default: enosys, Rules: []Rule{{Calls: "socket", Action: Kill, Cases: some}}},
		"a tracer": {Default: enosys, Rules: []Rule{{Calls: "socket", Action: actionTrace}}},
		"too many parts": {Default: enosys, Rules: []Rule{{Calls: "socket", Action: Allow, Cases: []Case{
			{If: []Cond{{Arg: 0, In: []uint32{1}}}, Action: eperm}, {If: []Cond{{Arg: 1, In: []uint32{1}}}, Action: eperm}, {If: []Cond{{Arg: 2, In: []uint32{1}}}, Action: eperm},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OCI(p, AMD64)
			assert.Error(t, err)
		})
	}
	_, err := OCI(Profile{Default: enosys}, AMD64, "keyctrl")
	assert.ErrorContains(t, err, "keyctl", "a call that is misspelt")
	_, err = OCI(Profile{Default: enosys}, 0)
	assert.Error(t, err)
}

func FuzzOCI(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{41, 0, 0, 1, 1, 1, 0, 3, 4, 0, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 200 {
			return
		}
		p := policy(b, AMD64)
		if _, err := OCI(p, AMD64); err == nil {
			checkOCI(t, p, AMD64, 50)
		}
	})
}
