package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAutonomyTableIsComplete(t *testing.T) {
	for _, row := range AutonomyTable {
		assert.NotEmpty(t, row.Words)
		for i, e := range row.Effects {
			assert.NotEmptyf(t, e, "%s, %s", row.Grant, Autonomies[i])
		}
		assert.Equal(t, AsWritten, row.Effects[1], "supervised is as written")
	}
	for _, e := range []FS{{Kind: Bind}, {Kind: Bind, Write: true}, {Kind: Socket}, {Kind: Tmpfs, Write: true}, {Kind: Dir}, {Kind: File}, {Kind: Proc}, {Kind: Dev}, {Kind: Symlink}} {
		for _, a := range Autonomies {
			assert.NotEmpty(t, a.effect(e.grant()), "%s %s", a, e.Kind)
		}
	}
	assert.Equal(t, OnlyRead, Autonomy("bogus").effect(grantWrite), "what is none is the closest")
	assert.ErrorContains(t, Policy{Autonomy: "bogus"}.Validate(), "autonomy: \"bogus\" is unknown; use readonly, supervised or full")
	assert.True(t, FullAccess.Wider(""))
	assert.True(t, Supervised.Wider(ReadOnly))
	assert.False(t, Autonomy("").Wider(Supervised))
}

// What a dropped socket hid is not uncovered.
func TestADroppedSocketLeavesNothingWiderBehind(t *testing.T) {
	p := Policy{Autonomy: ReadOnly, FS: []FS{{Kind: Bind, Source: "/srv", Dest: "/srv"}, {Kind: Socket, Source: "/run/a", Dest: "/srv/a"}, {Kind: Socket, Source: "/srv/b", Dest: "/srv/b"}}}
	got, _ := p.byAutonomy()
	assert.Len(t, got.FS, 2)
	assert.Equal(t, FS{Kind: Tmpfs, Dest: "/srv/a", NoExec: true, SizeMB: 1, Mode: 0o555, Why: "autonomy"}, got.FS[1])
}
