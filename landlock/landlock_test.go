package landlock

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var everything = Ruleset{
	Paths:      []PathRule{{Path: "/usr", Access: ReadExec}, {Path: "/work", Access: ReadWrite}},
	HandledFS:  AllFS,
	HandledNet: BindTCP | ConnectTCP | BindUDP | ConnectSendUDP,
	Ports:      []PortRule{{Port: 443, Access: ConnectTCP}},
	Scoped:     ScopeAll,
}

func TestFitNamesEveryLoss(t *testing.T) {
	for _, tt := range []struct {
		abi  int
		lost []string
	}{
		{0, []string{"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir", "make_reg",
			"make_sock", "make_fifo", "make_block", "make_sym", "truncate", "bind_tcp", "connect_tcp", "ioctl_dev",
			"scope_abstract_unix", "scope_signal", "resolve_unix", "bind_udp", "connect_send_udp"}},
		{1, []string{"truncate", "bind_tcp", "connect_tcp", "ioctl_dev", "scope_abstract_unix", "scope_signal", "resolve_unix",
			"bind_udp", "connect_send_udp"}},
		{3, []string{"bind_tcp", "connect_tcp", "ioctl_dev", "scope_abstract_unix", "scope_signal", "resolve_unix", "bind_udp",
			"connect_send_udp"}},
		{4, []string{"ioctl_dev", "scope_abstract_unix", "scope_signal", "resolve_unix", "bind_udp", "connect_send_udp"}},
		{5, []string{"scope_abstract_unix", "scope_signal", "resolve_unix", "bind_udp", "connect_send_udp"}},
		{7, []string{"resolve_unix", "bind_udp", "connect_send_udp"}},
		{9, []string{"bind_udp", "connect_send_udp"}},
		{MaxABI, nil},
		{MaxABI + 5, nil},
	} {
		_, lost := Fit(everything, tt.abi)
		var names []string
		for _, l := range lost {
			names = append(names, l.Right)
			assert.Greater(t, l.Since, tt.abi)
		}
		assert.Equal(t, tt.lost, names, "ABI %d", tt.abi)
	}
}

func TestFitIsIdempotentAndNeverAdds(t *testing.T) {
	for abi := 0; abi <= MaxABI+1; abi++ {
		once, _ := Fit(everything, abi)
		twice, lost := Fit(once, abi)
		assert.Equal(t, once, twice)
		assert.Empty(t, lost)
		assert.Zero(t, once.HandledFS&^everything.HandledFS)
		for _, p := range once.Paths {
			assert.Zero(t, p.Access&^once.HandledFS, "a rule for a right that is not handled is EINVAL")
		}
	}
}

func TestFitOnlyTellsOfWhatWasAsked(t *testing.T) {
	_, lost := Fit(Ruleset{HandledFS: ReadOnly}, 1)
	assert.Empty(t, lost)
}

func TestTableCoversEveryBitOnce(t *testing.T) {
	var fs Access
	var net Net
	var scope Scope
	for _, r := range table {
		require.Zero(t, fs&r.FS, r.Name)
		require.Zero(t, net&r.Net, r.Name)
		require.Zero(t, scope&r.Scope, r.Name)
		fs, net, scope = fs|r.FS, net|r.Net, scope|r.Scope
		require.LessOrEqual(t, r.Since, MaxABI)
	}
	assert.Equal(t, AllFS, fs)
	assert.Equal(t, ScopeAll, scope)
}

func TestMergeJoinsAndSorts(t *testing.T) {
	got := Merge([]PathRule{{Path: "/b", Access: ReadFile, Optional: true}, {Path: "/a", Access: ReadDir}, {Path: "/b", Access: WriteFile}})
	assert.Equal(t, []PathRule{{Path: "/a", Access: ReadDir}, {Path: "/b", Access: ReadFile | WriteFile}}, got)
}

func TestAccessPrintsAsPeopleSayIt(t *testing.T) {
	for access, want := range map[Access]string{
		ReadOnly: "r", ReadExec: "rx", ReadWrite: "rwx", ReadWrite &^ Execute: "rw", ReadFile | IoctlDev: "read_file,ioctl_dev", 0: "",
	} {
		assert.Equal(t, want, access.String())
	}
}
