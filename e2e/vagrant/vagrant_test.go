package vagrant

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden anew")

// TestVagrantfile has Vagrant read the file as it is, and with one mistake in it, which must be refused.
func TestVagrantfile(t *testing.T) {
	need(t)
	data, err := os.ReadFile("../../Vagrantfile")
	require.NoError(t, err)
	for _, test := range []struct{ name, provider, old, new, refusal string }{
		{"as it is, for libvirt", "libvirt", "", "", ""},
		{"as it is, for VirtualBox", "virtualbox", "", "", ""},
		{"a misspelt provisioner", "libvirt", `vm.provision "setup"`, `vm.provison "setup"`, "provison"},
		{"a misspelt option of libvirt", "libvirt", "v.memory", "v.memroy", "memroy"},
		{"a misspelt option of VirtualBox", "virtualbox", "v.memory", "v.memroy", "memroy"},
		{"a misspelt column", "libvirt", "box: \"debian/bookworm64\"", "bax: \"debian/bookworm64\"", "key not found: :box"},
		{"a box without a name", "libvirt", "debian/bookworm64", "", "'debian12' is an empty string"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := string(data)
			if test.refusal != "" {
				require.Contains(t, text, test.old, "there is nothing to put the mistake in")
				text = strings.ReplaceAll(text, test.old, test.new)
			}
			out, err := vagrant(t, text, test.provider, "validate")
			if test.refusal == "" {
				require.NoError(t, err, out)
				assert.Contains(t, out, "validated successfully")
				return
			}
			require.Error(t, err, "Vagrant takes the mistake:\n%s", out)
			assert.Contains(t, out, test.refusal, "Vagrant refuses something else")
		})
	}
}

// TestBoxes checks that Vagrant knows the machine of each distribution, and no other.
func TestBoxes(t *testing.T) {
	need(t)
	data, err := os.ReadFile("../../Vagrantfile")
	require.NoError(t, err)
	out, err := vagrant(t, string(data), "libvirt", "status", "--machine-readable")
	require.NoError(t, err, out)
	var got, want []string
	for line := range strings.Lines(out) { // time,machine,kind,data
		if f := strings.Split(strings.TrimSpace(line), ","); len(f) == 4 && f[2] == "state" {
			got = append(got, f[1])
			assert.Equal(t, "not_created", f[3], "the state of %s", f[1])
		}
	}
	for _, f := range distributions(t) {
		want = append(want, f.Name)
	}
	assert.Equal(t, want, got, "the rows of Vagrantfile are those of testdata/os-release.txtar")
}

// need skips a test that takes Vagrant.
func need(t *testing.T) {
	t.Helper()
	why := ""
	if _, err := exec.LookPath("vagrant"); err != nil {
		why = "vagrant is not installed"
	} else if out, err := vagrant(t, "", "virtualbox", "plugin", "list"); err != nil || !strings.Contains(out, "vagrant-libvirt") {
		why = "vagrant has no plugin vagrant-libvirt: " + out
	}
	switch {
	case why == "":
	case os.Getenv("CI") != "":
		t.Fatal(why + ": apt-get install --no-install-recommends vagrant vagrant-libvirt")
	default:
		t.Skip(why + ": apt-get install --no-install-recommends vagrant vagrant-libvirt")
	}
}

// vagrant runs it on a Vagrantfile in a directory of its own. It looks at the options of the one provider; for VirtualBox there has to be a
// program that tells its version.
func vagrant(t *testing.T, file, provider string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Vagrantfile"), file, 0o644)
	write(t, filepath.Join(dir, "bin", "VBoxManage"), "#!/bin/sh\necho 7.0.20r0\n", 0o755)
	cmd := exec.Command("vagrant", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8", "VAGRANT_CHECKPOINT_DISABLE=1",
		"VAGRANT_HOME=" + dir + "/home", "VAGRANT_DOTFILE_PATH=" + dir + "/dot", "VAGRANT_DEFAULT_PROVIDER=" + provider}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// distributions are those of the table, each with its os-release.
func distributions(t *testing.T) []txtar.File {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/os-release.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archive.Files)
	return archive.Files
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}
