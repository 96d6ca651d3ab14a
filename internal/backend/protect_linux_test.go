package backend

import (
	"testing"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
)

func TestProtectAuditLogs(t *testing.T) {
	const log = "/real/dir/a.jsonl"
	ro := mounts.Op{Kind: mounts.Bind, Source: "/link", Dest: "/link", Flags: mounts.Flags{mounts.ReadOnly}}
	rw := mounts.Op{Kind: mounts.Bind, Source: "/link", Dest: "/link"}
	for _, c := range []struct {
		name    string
		backend string
		ops     []mounts.Op
		seen    []mounts.Resolved
		says    string
	}{
		{"elsewhere", plan.BackendNative, []mounts.Op{ro}, []mounts.Resolved{{Source: "/real/direct"}}, ""},
		{"shown", plan.BackendNative, []mounts.Op{ro}, []mounts.Resolved{{Source: "/real"}}, "would show " + log},
		{"shown itself", plan.BackendNative, []mounts.Op{ro}, []mounts.Resolved{{Source: log, File: true}}, "would show " + log},
		{"shown from the root on", plan.BackendNative, []mounts.Op{ro}, []mounts.Resolved{{Source: "/"}}, "would show " + log},
		{"covered", plan.BackendNative, []mounts.Op{ro, {Kind: mounts.Mask, Dest: "/link/dir/a.jsonl"}}, []mounts.Resolved{{Source: "/real"}, {}}, ""},
		{"covered above", plan.BackendNative, []mounts.Op{ro, {Kind: mounts.Tmpfs, Dest: "/link/dir"}}, []mounts.Resolved{{Source: "/real"}, {}}, ""},
		{"covered by what was left out", plan.BackendNative, []mounts.Op{ro, {Kind: mounts.Mask, Dest: "/link/dir/a.jsonl"}},
			[]mounts.Resolved{{Source: "/real"}, {Missing: true}}, "would show " + log},
		{"covered too early", plan.BackendNative, []mounts.Op{{Kind: mounts.Mask, Dest: "/link/dir/a.jsonl"}, ro}, []mounts.Resolved{{}, {Source: "/real"}}, "would show " + log},
		{"writable, though covered", plan.BackendNative, []mounts.Op{rw, {Kind: mounts.Mask, Dest: "/link/dir/a.jsonl"}}, []mounts.Resolved{{Source: "/real"}, {}},
			"would make " + log + " writable"},
		{"no sandbox", plan.BackendNone, []mounts.Op{ro}, []mounts.Resolved{{Source: "/real"}}, ""},
	} {
		err := protect(&plan.Plan{Backend: c.backend, Mounts: c.ops, Audit: []string{log}}, c.seen, nil)
		if c.says == "" {
			assert.NoError(t, err, c.name)
		} else {
			assert.ErrorContains(t, err, c.says, c.name)
		}
	}
}
