package mounts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const applyEnv = "NSRUN_TEST_MOUNTS_APPLY"

// TestApply builds a real tree, in a copy of this test binary that has namespaces of its own, in the new way and in the old one.
func TestApply(t *testing.T) {
	if way := os.Getenv(applyEnv); way != "" {
		applyAndLook(os.Getenv(applyEnv+"_DIR"), map[string]Have{"new": newWay, "old": {}}[way], os.Getenv(applyEnv+"_OVERLAY") != "")
		os.Exit(0)
	}
	for _, way := range []string{"new", "old"} {
		t.Run(way, func(t *testing.T) {
			if _, _, errno := syscall.Syscall(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0); way == "new" && errno == syscall.ENOSYS {
				t.Skip("this kernel has no mount_setattr")
			}
			dir, layers, overlaid := fixture(t), "1", `/over/low: from low
/over/both: from high
/over/new: written
/ro/both: from high
/ro/new: refused
`
			if !overlays(dir) {
				layers, overlaid = "", ""
			}
			cmd := inNamespaces(exec.Command(os.Args[0], "-test.run=^TestApply$"))
			cmd.Env = append(os.Environ(), applyEnv+"="+way, applyEnv+"_DIR="+dir, applyEnv+"_OVERLAY="+layers)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Equal(t, `/bound/f: in bound
/bound/sub/made: refused
/rw/new: written
`+overlaid+`/tmp/new: written
/tmp/big: refused
/f: given
/link: /bound
/bound/f2: refused
/top: refused
/.nsrun-overlay: gone
`, string(out))
			assert.FileExists(t, filepath.Join(dir, "rw/new"), "judged from the host's side")
			assert.NoFileExists(t, filepath.Join(dir, "bound/f2"))
			for _, layer := range []string{"low", "high"} {
				assert.NoFileExists(t, filepath.Join(dir, layer, "new"), "what is written to an overlay in memory stays there")
			}
		})
	}
}

func inNamespaces(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	return cmd
}

// overlays says whether the kernel lets a user namespace mount an overlay, by mount(8): Linux does from 5.11 on.
func overlays(dir string) bool {
	return inNamespaces(exec.Command("mount", "-t", "overlay", "-o", "lowerdir="+dir+"/low:"+dir+"/high", "overlay", dir)).Run() == nil
}

func fixture(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, content := range map[string]string{
		"bound/f": "in bound", "bound/sub/g": "g", "rw/h": "h", "low/low": "from low", "low/both": "from low", "high/both": "from high",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir
}

func applyAndLook(dir string, have Have, overlay bool) {
	ops := []Op{
		{Kind: Bind, Source: dir + "/bound", Dest: "/bound", Flags: Flags{ReadOnly, NoSuid, NoDev}},
		{Kind: Bind, Source: dir + "/rw", Dest: "/rw"},
		{Kind: Tmpfs, Dest: "/tmp", Size: 1 << 16, Inodes: 8},
		{Kind: File, Dest: "/f", Data: []byte("given")},
		{Kind: File, Dest: "/bound/sub/g", Data: []byte("over")},
		{Kind: Symlink, Source: "/bound", Dest: "/link"},
	}
	if overlay {
		ops = append(ops, Op{Kind: Overlay, Layers: []string{dir + "/low", dir + "/high"}, Dest: "/over", Scratch: true},
			Op{Kind: Overlay, Layers: []string{dir + "/low", dir + "/high"}, Dest: "/ro"})
	}
	_, err := Apply(Tree{Ops: ops}, have)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	read := func(name string) {
		data, err := os.ReadFile(name)
		fmt.Printf("%s: %s%s\n", name, data, strings.Repeat("unreadable", btoi(err != nil)))
	}
	write := func(name string, n int) {
		if os.WriteFile(name, make([]byte, n), 0o644) != nil {
			fmt.Println(name + ": refused")
			return
		}
		fmt.Println(name + ": written")
	}
	read("/bound/f")
	write("/bound/sub/made", 1)
	write("/rw/new", 1)
	if overlay {
		read("/over/low")
		read("/over/both")
		write("/over/new", 1)
		read("/ro/both")
		write("/ro/new", 1)
	}
	write("/tmp/new", 1)
	write("/tmp/big", 1<<20)
	read("/f")
	target, _ := os.Readlink("/link")
	fmt.Println("/link:", target)
	write("/bound/f2", 1)
	write("/top", 1)
	if _, err := os.Stat(scratch); err != nil {
		fmt.Println(scratch + ": gone")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
