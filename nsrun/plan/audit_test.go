package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

func TestAuditLogIsCoveredWhereItIsShown(t *testing.T) {
	for _, c := range []struct {
		name, file string
		fs         []policy.FS
		backend    policy.Backend
		want       []string
	}{
		{"not shown", "/log/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/srv"}}, "", nil},
		{"shown", "/srv/log/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/srv"}}, "", []string{"/srv/log/a.jsonl"}},
		{"shown elsewhere", "/srv/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/work"}}, "", []string{"/work/a.jsonl"}},
		{"shown twice", "/srv/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/srv"}, {Kind: policy.Bind, Source: "/srv", Dest: "/too"}}, "",
			[]string{"/srv/a.jsonl", "/too/a.jsonl"}},
		{"covered already", "/srv/log/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/srv"}, {Kind: policy.Tmpfs, Dest: "/srv/log"}}, "", nil},
		{"landlock", "/srv/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/srv"}}, policy.BackendLandlock, []string{"/srv/a.jsonl"}},
		{"no sandbox", "/srv/a.jsonl", []policy.FS{{Kind: policy.Bind, Source: "/srv", Dest: "/srv"}}, policy.BackendNone, nil},
	} {
		p, err := Compile(Request{Private: spare, Policy: policy.Policy{FS: c.fs, Audit: []string{c.file}, Backend: c.backend}, Command: []string{"x"}}, hosts["kernel 6.18, user"])
		require.NoError(t, err, c.name)
		var masks []string
		for _, op := range p.Mounts {
			if op.Kind == mounts.Mask && op.Why == "audit" {
				masks = append(masks, op.Dest)
			}
		}
		assert.Equal(t, c.want, masks, c.name)
		assert.Equal(t, []string{c.file}, p.Audit, c.name)
	}
}
