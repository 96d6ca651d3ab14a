package vm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/e2e/vm/guest"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestTreeIsAnArchiveThatCpioReads has the program of that name as the judge.
func TestTreeIsAnArchiveThatCpioReads(t *testing.T) {
	tree := Tree{}
	tree.File("/a/b/file", os.ModeSetuid|0o755, []byte("text"))
	tree.File("/a/empty", 0o600, nil)
	tree.Link("/a/link", "b/file")
	tree.Dir("/tmp", 0o777|os.ModeSticky)
	tree["/dev/console"] = Entry{Mode: os.ModeDevice | os.ModeCharDevice | 0o600, Major: 5, Minor: 1}
	var out, again bytes.Buffer
	n, err := tree.WriteTo(&out)
	require.NoError(t, err)
	assert.EqualValues(t, out.Len(), n)
	_, err = tree.WriteTo(&again)
	require.NoError(t, err)
	assert.Equal(t, out.Bytes(), again.Bytes(), "the same tree gives the same bytes")
	if _, err := exec.LookPath("cpio"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have cpio")
		t.Skip("cpio is not installed: the kernel alone reads the archive, in TestVM")
	}
	cmd := exec.Command("cpio", "--list", "--verbose", "--numeric-uid-gid", "--quiet")
	cmd.Stdin = &out
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	var got []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		i := slices.IndexFunc(f, func(s string) bool { return strings.Contains(s, "197") || strings.Contains(s, ":") })
		got = append(got, f[0]+" "+strings.Join(f[i+1:], " "))
	}
	assert.Equal(t, []string{"drwxr-xr-x a", "drwxr-xr-x a/b", "-rwsr-xr-x a/b/file", "-rw------- a/empty", "lrwxrwxrwx a/link -> b/file",
		"drwxr-xr-x dev", "crw------- dev/console", "drwxrwxrwt tmp"}, got)
}

func TestMirrorsAreTheMachinesOwn(t *testing.T) {
	for sources, want := range map[string][2]string{
		"deb http://mirror.test/debian bookworm main\n":                                             {"http://mirror.test/debian", ""},
		"deb [signed-by=/k.gpg] https://m.test/x/debian/ sid main":                                  {"https://m.test/x/debian", ""},
		"# deb http://old.test/debian x main\nURIs: http://a.test/debian-security\nSuites: x\n":     {"", "http://a.test/debian-security"},
		"Types: deb\nURIs: http://a.test/debian\n\nTypes: deb\nURIs: http://b.test/debian-security": {"http://a.test/debian", "http://b.test/debian-security"},
		"deb http://archive.test/ubuntu noble main":                                                 {"", ""},
	} {
		assert.Equal(t, want, [2]string{findMirror(sources, "debian"), findMirror(sources, "debian-security")}, sources)
	}
}

func TestMirrorsCanBeNamed(t *testing.T) {
	t.Setenv("NSRUN_VM_MIRROR", "http://one.test/debian")
	t.Setenv("NSRUN_VM_SECURITY_MIRROR", "http://two.test/sec")
	for suite, want := range map[string]string{"trixie-backports": "http://one.test/debian", "bookworm-security": "http://two.test/sec"} {
		got, err := mirrorOf(suite)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestVersionsCompareAsNumbers(t *testing.T) {
	names := []string{"linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-10-cloud-amd64"}
	newest := slices.MaxFunc(names, func(a, b string) int { return compareVersions(kernelVersion(a), kernelVersion(b)) })
	assert.Equal(t, "linux-image-6.1.0-56-cloud-amd64", newest)
	assert.Negative(t, compareVersions("7.0.9+deb13", "7.0.10+deb13"))
	assert.Zero(t, compareVersions("6.12.1", "6.12.1"))
}

func TestReleaseIsThatOfTheImage(t *testing.T) {
	assert.Equal(t, "6.1.0-56-cloud-amd64", release("./boot/vmlinuz-6.1.0-56-cloud-amd64"))
	assert.Equal(t, "7.2.1-cloud-amd64", release("./usr/lib/modules/7.2.1-cloud-amd64/vmlinuz"))
}

func TestPackagesAreUnpackedWithMergedUsr(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have dpkg-deb")
		t.Skip("dpkg-deb is not installed")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"DEBIAN/control": "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n",
		"bin/tool": "tool", "usr/share/doc/x/copyright": "no", "etc/conf": "conf"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, "x", name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x", name), []byte(text), 0o755))
	}
	deb := filepath.Join(dir, "x.deb")
	text, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", filepath.Join(dir, "x"), deb).CombinedOutput()
	require.NoError(t, err, "%s", text)
	tree := Tree{}
	require.NoError(t, tree.unpack(deb))
	assert.Equal(t, "tool", string(tree["/usr/bin/tool"].Data))
	assert.Equal(t, "conf", string(tree["/etc/conf"].Data))
	assert.NotContains(t, tree, "/usr/share/doc/x/copyright")
	assert.NotContains(t, tree, "/bin/tool")
	require.NoError(t, os.WriteFile(deb, []byte("no package"), 0o644))
	assert.ErrorContains(t, tree.unpack(deb), deb)
}

func TestModulesFollowWhatTheyNeed(t *testing.T) {
	k := Kernel{modules: map[string]module{
		"overlay": {name: "overlay.ko"}, "vsock_loopback": {name: "vsock_loopback.ko.xz", need: []string{"common", "vsock"}},
		"common": {name: "common.ko", need: []string{"vsock"}}, "vsock": {name: "vsock.ko"},
	}}
	assert.Equal(t, []string{"/modules/overlay.ko", "/modules/vsock.ko", "/modules/common.ko", "/modules/vsock_loopback.ko.xz"}, k.order())
}

// TestMachineThatDoesNotComeUp has a qemu that ends at once, one that hangs, and one that says garbage.
func TestMachineThatDoesNotComeUp(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	m := Machine{Arch: "amd64", Accel: "tcg", MemoryMB: 64, Dir: t.TempDir()}
	for script, want := range map[string]string{
		"echo no such machine >&2; exit 1":                               "no such machine",
		"echo garbage; echo 'F up'; exit 0":                              "does not come up",
		"printf '\\nF up 6.1 0\\n\\nF fault - 4\\nbad!\\nF halt - 0\\n'": "init: bad!",
		"printf '\\nF up 6.1 0\\n'; exit 3":                              "the machine has died",
		"printf '\\nF up 6.1 0\\n'; exec sleep 100":                      "has been stopped",
	} {
		require.NoError(t, os.WriteFile(bin+"/qemu-system-x86_64", []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		limit := testenv.Limit(0)
		if strings.Contains(script, "sleep") {
			limit = time.Second
		}
		err := m.Boot(t.Context(), limit, func(f guest.Frame) {})
		assert.ErrorContains(t, err, want, script)
	}
	require.NoError(t, os.WriteFile(bin+"/qemu-system-x86_64", []byte("#!/bin/sh\nprintf '\\nF up 6.1 0\\n\\nF halt - 0\\n'\n"), 0o755))
	assert.NoError(t, m.Boot(t.Context(), testenv.Limit(0), func(f guest.Frame) {}))
}

// TestMachineThatDoesNotGoOff has a qemu that stays after the guest's last word: that ends it long before the limit, and is no failure.
func TestMachineThatDoesNotGoOff(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\nprintf '\\nF up 6.1 0\\n\\nF halt - 0\\n'\nexec sleep 100000\n"
	require.NoError(t, os.WriteFile(bin+"/qemu-system-x86_64", []byte(script), 0o755))
	testenv.Returns(t, "Boot", func() {
		assert.NoError(t, Machine{Arch: "amd64", Accel: "tcg", Dir: t.TempDir()}.Boot(t.Context(), time.Hour, func(guest.Frame) {}))
	})
}

func TestQemuThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := FindQemu("amd64")
	assert.ErrorIs(t, err, ErrNoQemu)
	assert.ErrorContains(t, err, "apt-get install --no-install-recommends qemu-system-x86")
	_, err = OpenArchive("bookworm", "amd64")
	assert.ErrorContains(t, err, "apt-get is not installed")
}

func TestLinesAreTheMatrix(t *testing.T) {
	for i, l := range Lines {
		if i > 0 {
			assert.Negative(t, compareVersions(Lines[i-1].Name, l.Name), "oldest first")
			assert.GreaterOrEqual(t, l.ABI, Lines[i-1].ABI)
		}
	}
}
