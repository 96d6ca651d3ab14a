package mounts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sample = `21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:5 / /proc rw,nosuid - proc proc rw
30 21 0:9 /with\040space /mnt/a\040b rw,nodev master:3 - tmpfs none\134x rw,size=1k
31 30 0:9 / /mnt/a\040b/c ro - tmpfs none rw
32 30 0:9 / /mnt/a\040b/c rw,noexec - tmpfs none rw
`

func TestParseMountinfo(t *testing.T) {
	m, err := ParseMountinfo([]byte(sample))
	require.NoError(t, err)
	require.Len(t, m, 5)
	assert.Equal(t, Mount{ID: 30, Parent: 21, Root: "/with space", Point: "/mnt/a b", Options: []string{"rw", "nodev"}, FSType: "tmpfs", Source: `none\x`}, m[2])
	at, ok := At(m, "/mnt/a b/c/d")
	require.True(t, ok)
	assert.Equal(t, 32, at.ID, "the last mount at a point is the one seen")
	below := Below(m, "/mnt")
	require.Len(t, below, 2)
	assert.Equal(t, []int{30, 32}, []int{below[0].ID, below[1].ID})
	assert.Empty(t, Below(m, "/mnt/a b/c"))
}

func TestParseMountinfoRefusesGarbage(t *testing.T) {
	for _, line := range []string{"x", "1 2 3 4 5 6", "a 1 0:1 / / rw - ext4 x rw", "1 b 0:1 / / rw - ext4 x rw", "1 1 0:1 / / rw - "} {
		_, err := ParseMountinfo([]byte(line))
		assert.Error(t, err, line)
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`1 1 0:1 \04 \999 rw - a`))
	f.Add([]byte("1 1 0:1 / /\\040\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMountinfo(data)
		if err != nil {
			return
		}
		At(m, "/a/b")
		for _, b := range Below(m, "/") {
			if b.Point == "/" {
				t.Fatal("a mount is not below itself")
			}
		}
	})
}

func TestOpsPrintOnOneLine(t *testing.T) {
	assert.Equal(t, "bind /b <- /a ro nosuid optional no-follow within=/s:/t", Op{Kind: Bind, Source: "/a", Dest: "/b", Flags: Flags{ReadOnly, NoSuid},
		Optional: true, NoFollow: true, Within: []string{"/s", "/t"}}.String())
	assert.Equal(t, "tmpfs /t size=3M inodes=7 mode=1777", Op{Kind: Tmpfs, Dest: "/t", Size: 3 << 20, Inodes: 7, Mode: 0o1777}.String())
	assert.Equal(t, "symlink /bin -> usr/bin", Op{Kind: Symlink, Source: "usr/bin", Dest: "/bin"}.String())
	assert.Equal(t, "overlay /o layers=/a:/b upper=/u work=/w", Op{Kind: Overlay, Dest: "/o", Layers: []string{"/a", "/b"}, Upper: "/u", Work: "/w"}.String())
	assert.Equal(t, "file /f 2 bytes", Op{Kind: File, Dest: "/f", Data: []byte("hi")}.String())
}
