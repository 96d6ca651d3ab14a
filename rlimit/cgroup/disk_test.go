package cgroup

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDisks(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	found, err := disks(fstest.MapFS{
		"loop0/dev": file("7:0\n"), "loop1/dev": file("7:1\n"), "loop1/loop/backing_file": file("/x\n"),
		"ram0/dev": file("1:0\n"), "zram0/dev": file("252:0\n"), "dm-0/dev": file("253:0\n"), "dm-0/slaves/vda/dev": file("254:0\n"),
		"vda/dev": file("254:0\n"), "nbd0/dev": file("43:0\n"), "nvme0n1/dev": file("259:1\n"),
		"nvme0c0n1/hidden": file("1\n"), "nvme0c0n1/device/model": file("x\n")})
	require.NoError(t, err)
	assert.Equal(t, []string{"7:1", "43:0", "259:1", "254:0"}, found)
	_, err = disks(fstest.MapFS{"zram0/dev": file("252:0\n")})
	require.EqualError(t, err, "no disk is seen in /sys/block, so none can be bounded")
}
