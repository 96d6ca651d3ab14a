package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fakeHost is a host as a map: a name ending in / is a directory, "-> X" a symlink, "fifo", "socket" and "char M:N" what they say.
type fakeHost map[string]string

func (h fakeHost) Stat(name string) (Stat, error) {
	name = path.Clean(name)
	switch what, ok := h[name]; {
	case name == "/" || h.hasBelow(name):
		return Stat{Path: name, Mode: unix.S_IFDIR | 0o755}, nil
	case !ok:
		return Stat{}, &os.PathError{Op: "look at", Path: name, Err: unix.ENOENT}
	case strings.HasPrefix(what, "-> "):
		return Stat{Path: name, Mode: unix.S_IFLNK | 0o777, Target: what[3:], Links: h.planted(name)}, nil
	case what == "dir":
		return Stat{Path: name, Mode: unix.S_IFDIR | 0o755}, nil
	case what == "fifo":
		return Stat{Path: name, Mode: unix.S_IFIFO}, nil
	case what == "socket":
		return Stat{Path: name, Mode: unix.S_IFSOCK}, nil
	case strings.HasPrefix(what, "char "):
		var major, minor uint32
		for i, n := range strings.Split(what[5:], ":") {
			for _, c := range n {
				if i == 0 {
					major = major*10 + uint32(c-'0')
				} else {
					minor = minor*10 + uint32(c-'0')
				}
			}
		}
		return Stat{Path: name, Mode: unix.S_IFCHR | 0o666, Rdev: unix.Mkdev(major, minor)}, nil
	}
	return Stat{Path: name, Mode: unix.S_IFREG | 0o644}, nil
}

func (h fakeHost) hasBelow(name string) bool {
	for p := range h {
		if strings.HasPrefix(p, name+"/") {
			return true
		}
	}
	return false
}

// planted says that links below /home could have been replaced by the caller.
func (h fakeHost) planted(name string) []string {
	if strings.HasPrefix(name, "/home/") {
		return []string{name}
	}
	return nil
}

func (h fakeHost) Mountinfo() ([]Mount, error) {
	return ParseMountinfo([]byte("1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw,nosuid,noexec - ext4 /dev/sdb rw\n" +
		"3 2 0:5 / /srv/deep/er ro,nodev - tmpfs tmpfs rw\n4 1 0:7 / /home/me/root/proc rw - proc proc rw\n"))
}

var plainHost = fakeHost{
	"/usr/bin/sh": "file", "/bin": "-> usr/bin", "/etc/passwd": "file", "/etc/resolv.conf": "-> ../run/resolve/stub.conf",
	"/etc/bad.conf": "-> /proc/1/x", "/run/resolve/stub.conf": "file", "/srv/deep/er/f": "file", "/home/me/notes": "-> /home/me/.ssh",
	"/home/me/.ssh/id": "file", "/home/me/pipe": "fifo", "/home/me/s": "socket", "/home/me/w/sub": "dir", "/home/me/root/proc/sys/x": "file",
	"/dev/null": "char 1:3", "/dev/zero": "char 1:5", "/dev/full": "char 1:7", "/dev/random": "char 1:8", "/dev/urandom": "char 1:9",
	"/dev/tty": "char 5:0", "/proc/keys": "file", "/proc/sys/kernel/x": "file", "/proc/acpi/x": "file",
}

var newWay = Have{NewAPI: true, Openat2: true}

func lower(t *testing.T, have Have, host Resolver, ops ...Op) (string, []Resolved, error) {
	t.Helper()
	p := sys.Program{Trace: true}
	resolved, err := Lower(&p, Tree{Ops: ops}, have, host)
	return p.String(), resolved, err
}

func TestBindInTheNewWay(t *testing.T) {
	text, _, err := lower(t, newWay, plainHost, Op{Kind: Bind, Source: "/usr", Dest: "/a/usr", Flags: Flags{ReadOnly, NoSuid, NoDev}})
	require.NoError(t, err)
	assert.Contains(t, text, `# mount 1 (bind /a/usr)
   9  mkdirat($1, "a", 0755)
  10  mkdirat($1, "a/usr", 0755)
  11  openat2(AT_FDCWD, "/usr", {O_PATH, RESOLVE_NO_SYMLINKS}, 24) = $2
  12  open_tree($2, "", OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC|AT_EMPTY_PATH|AT_RECURSIVE) = $4
  13  close($2)
  14  mount_setattr($4, "", AT_EMPTY_PATH|AT_RECURSIVE, {set ro|nosuid|nodev}, 32)
  15  move_mount($4, "", $1, "a/usr", MOVE_MOUNT_F_EMPTY_PATH)
`)
	assert.Contains(t, text, `mount_setattr($1, "", AT_EMPTY_PATH, {set ro|nosuid|nodev}, 32)`, "the root ends read-only")
	assert.True(t, strings.Index(text, "pivot_root") < strings.Index(text, "umount2(\".\", MNT_DETACH)"))
}

// TestSharedPlacesHaveOneBound: a shared place is a directory of the root's tmpfs. Where it cannot be, it has a tmpfs of its own with the same limits.
func TestSharedPlacesHaveOneBound(t *testing.T) {
	share := func(dest string, mode uint32, flags ...Flag) Op {
		return Op{Kind: Tmpfs, Dest: dest, Mode: mode, Flags: flags, Shared: true}
	}
	for _, have := range []Have{newWay, {}} {
		p := sys.Program{Trace: true}
		_, err := Lower(&p, Tree{Size: 1 << 20, Inodes: 9, Ops: []Op{
			{Kind: Dev, Dest: "/dev"}, share("/dev/shm", 0o1777), share("/tmp", 0o1777, NoSuid, NoDev, NoExec), share("/tmp/in", 0), // shared
			{Kind: Dir, Dest: "/other"}, share("/other", 0o700), {Kind: Dir, Dest: "/used"}, {Kind: File, Dest: "/used/f"}, share("/used", 0),
			{Kind: Bind, Source: "/home/me/w", Dest: "/w"}, share("/w/sub", 0o700), share("/tmp", 0), // not shared
		}}, have, plainHost)
		require.NoError(t, err)
		text := p.String()
		for _, want := range []string{`mkdirat($1, "dev", 0755)`, `mount("dev", "dev", NULL, MS_BIND, NULL)`, `mkdirat($1, "dev/shm", 1777)`,
			`mount("dev/shm", "dev/shm", NULL, MS_BIND, NULL)`, `mount(NULL, "dev/shm", NULL, MS_REMOUNT|MS_BIND|nosuid|nodev, NULL)`, `mkdirat($1, "tmp", 1777)`,
			`mount(NULL, "tmp", NULL, MS_REMOUNT|MS_BIND|nosuid|nodev|noexec, NULL)`, `mkdirat($1, "tmp/in", 0755)`, `mount("tmp/in", "tmp/in", NULL, MS_BIND, NULL)`,
			`mount("tmpfs", "other", "tmpfs", nosuid|nodev, "mode=0700,size=1048576,nr_inodes=9")`,
			`mount("tmpfs", "used", "tmpfs", nosuid|nodev, "mode=0755,size=1048576,nr_inodes=9")`,
			`"tmpfs", nosuid|nodev, "mode=0700,size=1048576,nr_inodes=9")`, `mount("tmpfs", "tmp", "tmpfs", nosuid|nodev, "mode=0755,size=1048576,nr_inodes=9")`} {
			assert.Contains(t, text, want)
		}
		assert.NotContains(t, text, `mkdirat($1, "w/`, "nothing is made in a directory of the host")
		assert.Equal(t, 1, strings.Count(text, `mkdirat($1, "dev/shm"`))
		if have.NewAPI {
			assert.Contains(t, text, `"size", "1048576"`)
			assert.Contains(t, text, `"nr_inodes", "9"`)
		} else {
			assert.Contains(t, text, `mount("nsrun", "/", "tmpfs", MS_NOSUID|MS_NODEV, "mode=0755,size=1048576,nr_inodes=9")`)
		}
	}
}

// TestDestinationsBelowABindAreNotNamedByAPath: in a directory of the host, somebody could plant a symlink (CVE-2019-16884). A file system of the
// sandbox that covers one is reached through it, too.
func TestDestinationsBelowABindAreNotNamedByAPath(t *testing.T) {
	for _, have := range []Have{newWay, {Openat2: true}} {
		text, _, err := lower(t, have, plainHost,
			Op{Kind: Bind, Source: "/home/me/w", Dest: "/w"}, Op{Kind: Bind, Source: "/usr", Dest: "/w/sub"}, Op{Kind: Tmpfs, Dest: "/w/sub"},
			Op{Kind: Tmpfs, Dest: "/w/sub/in"}, Op{Kind: Bind, Source: "/usr", Dest: "/w/sub/usr"}, Op{Kind: Proc, Dest: "/w/sub/proc"})
		require.NoError(t, err)
		for _, by := range []string{`$1, "w/sub`, `mount("tmpfs", "w/sub`, `mount("proc", "w/sub`, `mount(NULL, "w/sub`} {
			for line := range strings.Lines(text) {
				made := strings.Contains(line, "mkdirat") // in the sandbox's own tmpfs
				assert.False(t, !made && !strings.Contains(line, "RESOLVE_BENEATH") && strings.Contains(line, by), line)
			}
		}
		text, _, err = lower(t, have, plainHost, Op{Kind: Bind, Source: "/home/me/w", Dest: "/w"}, Op{Kind: Tmpfs, Dest: "/w"}, Op{Kind: Tmpfs, Dest: "/w/in"})
		require.NoError(t, err)
		assert.Contains(t, text, `mount("tmpfs", "w/in", "tmpfs"`, "nothing of the bind that is covered is on the way")
	}
}

func TestBindInTheOldWayKeepsLockedFlagsOfEachSubmount(t *testing.T) {
	text, _, err := lower(t, Have{}, plainHost, Op{Kind: Bind, Source: "/srv", Dest: "/srv", Flags: Flags{ReadOnly, NoSuid, NoDev}})
	require.NoError(t, err)
	source, err := sys.SpareFD(nil)
	require.NoError(t, err)
	dest, err := sys.SpareFD([]int{source})
	require.NoError(t, err)
	assert.Contains(t, text, fmt.Sprintf(`mount("/proc/self/fd/%d", "/proc/self/fd/%d", NULL, MS_BIND|MS_REC, NULL)`, source, dest))
	assert.Contains(t, text, `MS_REMOUNT|MS_BIND|ro|nosuid|nodev|noexec, NULL)`, "noexec of the host's mount must be repeated")
	assert.Equal(t, 2, strings.Count(text, "MS_REMOUNT|MS_BIND|ro|nosuid|nodev"+"|noexec")+strings.Count(text, "MS_REMOUNT|MS_BIND|ro|nosuid|nodev, NULL")-1,
		"one for /srv, one for /srv/deep/er, one for the root")
	assert.NotContains(t, text, "openat2")
	assert.Contains(t, text, "readlinkat(", "a last symlink is looked for")
}

// TestTheNewRootIsProvedToBeNew says how: without openat2, by the host's /proc, which the stacked file system has not.
func TestTheNewRootIsProvedToBeNew(t *testing.T) {
	for name, c := range map[string]struct {
		have  Have
		proof string
	}{
		"openat2":         {Have{Openat2: true}, `openat2(AT_FDCWD, "/..", {O_PATH, RESOLVE_NO_XDEV}, 24)`},
		"without openat2": {Have{}, `openat(AT_FDCWD, "/../proc", O_PATH|O_CLOEXEC)`},
	} {
		t.Run(name, func(t *testing.T) {
			text, _, err := lower(t, c.have, plainHost, Op{Kind: Bind, Source: "/usr", Dest: "/usr"})
			require.NoError(t, err)
			_, after, found := strings.Cut(text, c.proof)
			require.True(t, found, text)
			lines := strings.SplitN(after, "\n", 4)
			assert.Contains(t, lines[1], "fail", text)
			assert.Contains(t, lines[2], `openat(AT_FDCWD, "/..", O_PATH|O_DIRECTORY|O_CLOEXEC)`)
		})
	}
}

func TestRefusals(t *testing.T) {
	ro := Flags{ReadOnly}
	etc := Op{Kind: Bind, Source: "/etc", Dest: "/etc", Flags: ro}
	for name, tt := range map[string]struct {
		ops  []Op
		text string
	}{
		"missing source":                  {[]Op{{Kind: Bind, Source: "/none", Dest: "/none"}}, "mount (bind /none): look at /none: no such file"},
		"a FIFO":                          {[]Op{{Kind: Bind, Source: "/home/me/pipe", Dest: "/x"}}, "/home/me/pipe is a FIFO"},
		"a socket where a file is wanted": {[]Op{{Kind: Bind, Source: "/home/me/s", Dest: "/x"}}, "is a socket"},
		"a file where a socket is wanted": {[]Op{{Kind: Bind, Source: "/etc/passwd", Dest: "/x", Only: "socket"}}, "is a file, not a socket"},
		"a device":                        {[]Op{{Kind: Bind, Source: "/dev/null", Dest: "/x"}}, "is a device"},
		"a planted symlink":               {[]Op{{Kind: Bind, Source: "/home/me/notes", Dest: "/n", NoFollow: true}}, "could have planted"},
		"a chroot's procfs":               {[]Op{{Kind: Bind, Source: "/home/me/root", Dest: "/r"}}, "shows the proc at /home/me/root/proc"},
		"inside a chroot's procfs":        {[]Op{{Kind: Bind, Source: "/home/me/root/proc/sys", Dest: "/r"}}, "shows the proc at"},
		"outside of what is permitted":    {[]Op{{Kind: Bind, Source: "/home/me/notes", Dest: "/n", Within: []string{"/srv"}}}, "outside what is permitted"},
		"a mount point made on the host":  {[]Op{etc, {Kind: Bind, Source: "/usr", Dest: "/etc/none"}}, "nothing is created there"},
		"a directory made on the host":    {[]Op{etc, {Kind: Dir, Dest: "/etc/none"}}, "nothing is created there"},
		"a file made on the host":         {[]Op{etc, {Kind: File, Dest: "/etc/none/deep"}}, "nothing is created there"},
		"a symlink made on the host":      {[]Op{etc, {Kind: Symlink, Source: "x", Dest: "/etc/x"}}, "nothing is created there"},
		"a symlink of the host as place":  {[]Op{etc, {Kind: File, Dest: "/etc/bad.conf"}}, "nothing is mounted on one"},
		"a symlink of ours on the way":    {[]Op{{Kind: Symlink, Source: "/usr", Dest: "/l"}, {Kind: Dir, Dest: "/l/x"}}, "is a symlink in the sandbox"},
		"a file on a directory":           {[]Op{{Kind: Dir, Dest: "/d"}, {Kind: Bind, Source: "/etc/passwd", Dest: "/d"}}, "is a directory"},
		"a directory on a file":           {[]Op{{Kind: File, Dest: "/f"}, {Kind: Bind, Source: "/usr", Dest: "/f"}}, "is a file"},
		"a place below a file":            {[]Op{{Kind: File, Dest: "/f"}, {Kind: Dir, Dest: "/f/x"}}, "is a file"},
		"a symlink where something is":    {[]Op{{Kind: Dir, Dest: "/d"}, {Kind: Symlink, Source: "x", Dest: "/d"}}, "something is at /d already"},
		"a mount in devpts":               {[]Op{{Kind: Devpts, Dest: "/p"}, {Kind: Dir, Dest: "/p/x"}}, "nothing can be mounted in /p"},
		"an overlay of one layer":         {[]Op{{Kind: Overlay, Layers: []string{"/usr"}, Dest: "/o"}}, "needs two layers"},
		"an overlay of a file":            {[]Op{{Kind: Overlay, Layers: []string{"/usr", "/etc/passwd"}, Dest: "/o"}}, "not a directory"},
		"a layer that could be planted":   {[]Op{{Kind: Overlay, Layers: []string{"/home/me/notes"}, Dest: "/n", Scratch: true, NoFollow: true}}, "could have planted"},
		"an overlay of nothing":           {[]Op{{Kind: Overlay, Layers: []string{"/nope"}, Dest: "/n", Scratch: true}}, "no such file"},
		"an overlay over a symlink":       {[]Op{{Kind: Symlink, Source: "/usr", Dest: "/l"}, {Kind: Overlay, Layers: []string{"/usr"}, Dest: "/l/x", Scratch: true}}, "is a symlink in the sandbox"},
		"an operation nobody knows":       {[]Op{{Kind: "melt", Dest: "/x"}}, "bug: unknown operation"},
	} {
		for _, have := range []Have{newWay, {}} {
			_, _, err := lower(t, have, plainHost, tt.ops...)
			require.Error(t, err, name)
			assert.Contains(t, err.Error(), tt.text, name)
			var e *fault.Error
			require.ErrorAs(t, err, &e, name)
		}
	}
}

func TestDirMustBeThere(t *testing.T) {
	ops := []Op{{Kind: Bind, Source: "/etc", Dest: "/etc"}, {Kind: Dir, Dest: "/a/b"}, {Kind: Tmpfs, Dest: "/tmp"}, {Kind: Bind, Source: "/usr", Dest: "/u"},
		{Kind: Bind, Source: "/bin", Dest: "/bin", KeepLink: true}}
	for dir, want := range map[string]error{
		"": nil, "/": nil, "/a": nil, "/a/b": nil, "/etc": nil, "/tmp": nil, "/u/bin": nil, "/bin": nil,
		"/none": os.ErrNotExist, "/a/b/c": os.ErrNotExist, "/tmp/x": os.ErrNotExist, "/u/none": os.ErrNotExist, "/etc/passwd": unix.ENOTDIR,
	} {
		var p sys.Program
		_, err := Lower(&p, Tree{Ops: ops, Dir: dir}, newWay, plainHost)
		assert.ErrorIs(t, err, want, dir)
	}
}

func TestDeviceNodesAreCheckedByNumber(t *testing.T) {
	host := fakeHost{}
	for k, v := range plainHost {
		host[k] = v
	}
	host["/dev/null"] = "char 1:5" // CVE-2025-31133: something else under the name of a mask
	_, _, err := lower(t, newWay, host, Op{Kind: Dev, Dest: "/dev"})
	require.ErrorContains(t, err, "not the device of that name")
	_, _, err = lower(t, newWay, host, Op{Kind: Bind, Source: "/etc", Dest: "/etc"}, Op{Kind: Mask, Dest: "/etc/passwd"})
	require.ErrorContains(t, err, "the mask")
}

func TestOptionalIsLeftOutAndReported(t *testing.T) {
	_, resolved, err := lower(t, newWay, plainHost,
		Op{Kind: Bind, Source: "/none", Dest: "/none", Optional: true},
		Op{Kind: Bind, Source: "/etc", Dest: "/etc"},
		Op{Kind: File, Dest: "/etc/none", Optional: true},
		Op{Kind: Bind, Source: "/bin", Dest: "/bin", KeepLink: true},
		Op{Kind: Bind, Source: "/etc/passwd", Dest: "/p"})
	require.NoError(t, err)
	assert.Equal(t, []Resolved{{Op: 0, Dest: "/none", Missing: true}, {Op: 1, Dest: "/etc", Source: "/etc"}, {Op: 2, Dest: "/etc/none", Missing: true},
		{Op: 3, Dest: "/bin", Link: true, Target: "usr/bin"}, {Op: 4, Dest: "/p", Source: "/etc/passwd", File: true}}, resolved)
}

func TestFollowDestGoesWhereTheLinkLeadsInside(t *testing.T) {
	text, resolved, err := lower(t, newWay, plainHost, Op{Kind: Bind, Source: "/etc", Dest: "/etc"},
		Op{Kind: File, Dest: "/etc/resolv.conf", Data: []byte("x"), FollowDest: true})
	require.NoError(t, err)
	assert.Equal(t, "/run/resolve/stub.conf", resolved[1].Dest)
	assert.Contains(t, text, `mkdirat($1, "run/resolve", 0755)`, "it is made in the sandbox's own tmpfs")
}

func TestProcIsCovered(t *testing.T) {
	text, _, err := lower(t, newWay, plainHost, Op{Kind: Proc, Dest: "/proc"})
	require.NoError(t, err)
	assert.Contains(t, text, `mount(NULL, "proc", NULL, MS_REMOUNT|nosuid|nodev|noexec, "hidepid=ptraceable"), or EINVAL`)
	assert.Contains(t, text, `"proc/sys"`)
	assert.Contains(t, text, `"proc/keys"`)
	assert.Contains(t, text, `"proc/acpi"`, "a directory is covered by an empty tmpfs")
	assert.NotContains(t, text, "kcore", "what this kernel has not got needs no cover")
	assert.Equal(t, 1, strings.Count(text, "RESOLVE_BENEATH"), "only the kernel makes names in a new procfs, but mount(2) follows a symlink at the end")
}

// TestANewProcfsIsNamedByAPathOnlyForItsParts: the parts lead through no symlink; in /proc/self and /proc/net they would.
func TestANewProcfsIsNamedByAPathOnlyForItsParts(t *testing.T) {
	host := fakeHost{"/dev/null": "char 1:3", "/proc/keys": "file", "/proc/7/status": "file", "/home/me/w/x": "file"}
	proc := Op{Kind: Proc, Dest: "/proc"}
	text, _, err := lower(t, newWay, host, proc, Op{Kind: Mask, Dest: "/proc/7/status"})
	require.NoError(t, err)
	assert.Contains(t, text, `"", $1, "proc/keys", MOVE_MOUNT_F_EMPTY_PATH)`)
	assert.Contains(t, text, `openat2($1, "proc/7/status", {O_PATH, RESOLVE_NO_SYMLINKS|RESOLVE_BENEATH}, 24)`)
	proc.Dest = "/w/p"
	text, _, err = lower(t, newWay, host, Op{Kind: Bind, Source: "/home/me/w", Dest: "/w"}, Op{Kind: Tmpfs, Dest: "/w/x", Optional: true}, proc)
	require.Error(t, err, "nothing is created on the host: %s", text)
}

// linkedHost resolves /proc/self, as Host.Stat does.
type linkedHost struct{ fakeHost }

func (h linkedHost) Stat(name string) (Stat, error) {
	return h.fakeHost.Stat(strings.Replace(name, "/proc/self/", "/proc/7/", 1))
}

func TestNothingIsMaskedThroughASymlink(t *testing.T) {
	host := linkedHost{fakeHost{"/proc/7/status": "file"}}
	_, _, err := lower(t, newWay, host, Op{Kind: Proc, Dest: "/proc"}, Op{Kind: Mask, Dest: "/proc/self/status", Optional: true})
	require.ErrorContains(t, err, "/proc/self/status is reached through a symlink")
}

// TestAMaskThatKeepsLinksIsLeftOutBehindThem holds for links of the host and of the sandbox, and for masks that say so alone.
func TestAMaskThatKeepsLinksIsLeftOutBehindThem(t *testing.T) {
	host := linkedHost{fakeHost{"/proc/7/status": "file", "/lib": "-> usr/lib", "/usr/lib/lock": "file", "/dev/null": "char 1:3"}}
	for dest, trees := range map[string][]Op{
		"/proc/self/status": {{Kind: Proc, Dest: "/proc"}},
		"/lib/lock":         {{Kind: Bind, Source: "/usr", Dest: "/usr"}, {Kind: Bind, Source: "/lib", Dest: "/lib", KeepLink: true}},
	} {
		mask := Op{Kind: Mask, Dest: dest, Optional: true}
		_, _, err := lower(t, newWay, host, append(trees, mask)...)
		assert.ErrorContains(t, err, dest)
		mask.KeepLink = true
		_, resolved, err := lower(t, newWay, host, append(trees, mask)...)
		require.NoError(t, err)
		assert.True(t, resolved[len(resolved)-1].Missing)
	}
	// control: what is there without a link is covered
	_, resolved, err := lower(t, newWay, host, Op{Kind: Bind, Source: "/usr", Dest: "/usr"}, Op{Kind: Mask, Dest: "/usr/lib/lock", Optional: true, KeepLink: true})
	require.NoError(t, err)
	assert.False(t, resolved[1].Missing)
}

// TestNothingIsEverCreatedOnTheHost checks every creating call of many trees: its place must be in a file system of the sandbox's.
func TestNothingIsEverCreatedOnTheHost(t *testing.T) {
	ops := []Op{
		{Kind: Bind, Source: "/etc", Dest: "/etc"}, {Kind: Bind, Source: "/home/me/w", Dest: "/w"}, {Kind: Tmpfs, Dest: "/w/sub"},
		{Kind: Dir, Dest: "/w/sub/in/deep"}, {Kind: File, Dest: "/w/sub/f"}, {Kind: File, Dest: "/etc/passwd"},
		{Kind: Symlink, Source: "x", Dest: "/w/sub/l"}, {Kind: Dev, Dest: "/dev"}, {Kind: Proc, Dest: "/proc"},
		{Kind: Overlay, Layers: []string{"/usr", "/srv"}, Dest: "/o", Scratch: true}, {Kind: Tmpfs, Dest: "/tmp"}, {Kind: Bind, Source: "/usr", Dest: "/tmp/a/b"},
	}
	for _, have := range []Have{newWay, {}} {
		text, _, err := lower(t, have, plainHost, ops...)
		require.NoError(t, err)
		made := 0
		for _, line := range strings.Split(text, "\n") {
			if !strings.Contains(line, "mkdirat(") && !strings.Contains(line, "mknodat(") && !strings.Contains(line, "symlinkat(") && !strings.Contains(line, "O_CREAT") {
				continue
			}
			made++
			for _, hosts := range []string{`"etc/`, `"w/sub", 0`, `"proc/`} {
				assert.NotContains(t, line, hosts)
			}
			assert.True(t, strings.Contains(line, "$1") || strings.Contains(line, `AT_FDCWD, "upper"`) || strings.Contains(line, `AT_FDCWD, "work"`), line)
		}
		assert.Greater(t, made, 15)
	}
}

func TestApplyNeedsPrivilege(t *testing.T) {
	if os.Geteuid() == 0 {
		return // it would rebuild the root of the tests themselves
	}
	_, err := Apply(Tree{}, newWay)
	assert.True(t, errors.Is(err, unix.EPERM), "got %v", err)
}

func TestHostLook(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/real/sub", 0o755))
	require.NoError(t, os.WriteFile(dir+"/real/sub/f", nil, 0o644))
	require.NoError(t, os.Symlink("real", dir+"/link"))
	require.NoError(t, os.Symlink(dir+"/link/sub", dir+"/abs"))
	require.NoError(t, os.Symlink("link/../real/sub/f", dir+"/dots"))
	require.NoError(t, os.Symlink("loop", dir+"/loop"))
	var host Host
	defer host.Close()
	real, err := resolve(&host, dir)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"/real/sub/f": "/real/sub/f", "/link/sub/f": "/real/sub/f", "/abs/f": "/real/sub/f", "/dots": "/real/sub/f", "/link": "/real",
		"/real/sub/../sub": "/real/sub",
	} {
		got, err := resolve(&host, dir+name)
		require.NoError(t, err, name)
		assert.Equal(t, real.Path+want, got.Path, name)
		if strings.Contains(name, "link") {
			assert.NotEmpty(t, got.Links, "%s: a sandbox of the caller's could have planted the link", name)
		}
	}
	// A directory that can no longer be written to, because whoever planted the link took the right away.
	require.NoError(t, os.Chmod(dir+"/real", 0o555))
	defer os.Chmod(dir+"/real", 0o755)
	require.NoError(t, os.Symlink("real", dir+"/again"))
	closed, err := resolve(&host, dir+"/again")
	require.NoError(t, err)
	assert.NotEmpty(t, closed.Links)
	_, err = resolve(&host, dir+"/loop")
	assert.ErrorIs(t, err, unix.ELOOP)
	_, err = resolve(&host, dir+"/none/x")
	assert.ErrorIs(t, err, os.ErrNotExist)
	link, err := host.Stat(dir + "/link")
	require.NoError(t, err)
	assert.Equal(t, "real", link.Target)
}

// TestAMaskOfNothingIsLeftOut has a directory of the sandbox's own, as where the host has no /etc.
func TestAMaskOfNothingIsLeftOut(t *testing.T) {
	dir := Op{Kind: Dir, Dest: "/etc"}
	text, _, err := lower(t, newWay, plainHost, dir, Op{Kind: Mask, Dest: "/etc/shadow", Optional: true})
	require.NoError(t, err)
	assert.NotContains(t, text, "shadow")
	_, _, err = lower(t, newWay, plainHost, dir, Op{Kind: Mask, Dest: "/etc/shadow"})
	require.ErrorContains(t, err, "nothing is known of /etc/shadow")
	text, _, err = lower(t, newWay, plainHost, dir, Op{Kind: File, Dest: "/etc/shadow", Data: []byte("x")}, Op{Kind: Mask, Dest: "/etc/shadow", Optional: true})
	require.NoError(t, err)
	assert.Contains(t, text, "/dev/null", "what is known to be there is masked")
	_, _, err = lower(t, newWay, plainHost, Op{Kind: Overlay, Layers: []string{"/etc", "/usr"}, Dest: "/etc"}, Op{Kind: Mask, Dest: "/etc/shadow", Optional: true})
	require.Error(t, err, "what an overlay has is not known")
}

// TestAnOptionalOverlayOfNothingIsLeftOut: its layer is not there, or its place would have to be made on the host.
func TestAnOptionalOverlayOfNothingIsLeftOut(t *testing.T) {
	over := func(layer, dest string) Op {
		return Op{Kind: Overlay, Layers: []string{layer}, Dest: dest, Scratch: true, Optional: true}
	}
	bind := Op{Kind: Bind, Source: "/usr", Dest: "/w"}
	for _, op := range []Op{over("/nope", "/n"), over("/usr", "/w/nope")} {
		text, resolved, err := lower(t, newWay, plainHost, bind, op)
		require.NoError(t, err)
		assert.True(t, resolved[1].Missing)
		assert.NotContains(t, text, "overlay")
	}
	text, resolved, err := lower(t, newWay, plainHost, bind, over("/usr", "/n"))
	require.NoError(t, err)
	assert.False(t, resolved[1].Missing)
	assert.Contains(t, text, "lowerdir=/proc/self/fd/", "control: and no path is resolved a second time")
	assert.NotContains(t, text, "lowerdir=/usr")
}

// TestNodesAndMasksCannotBeChanged holds the flags of what root owns on the host: without ro, chmod inside would change it there.
func TestNodesAndMasksCannotBeChanged(t *testing.T) {
	for _, have := range []Have{newWay, {}} {
		text, _, err := lower(t, have, plainHost, Op{Kind: Dev, Dest: "/dev"}, Op{Kind: Proc, Dest: "/proc"})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, strings.Count(text, "ro|nosuid|noexec"), 7, "six nodes and one mask")
	}
}
