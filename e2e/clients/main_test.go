package clients_test

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/require"
)

//go:embed testdata
var testdata embed.FS

// built is what TestMain makes or finds.
var built struct {
	room    string // a directory that every user can enter
	engines []engine
	fetched string // what scripts/clients.sh printed
	why     string // reason that there are no clients
}

// engine is a program that clients know as bwrap.
type engine struct {
	name    string
	path    string // its last name is bwrap
	version string
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := testenv.MakeDir("nsrun-clients-")
	if err == nil {
		defer os.RemoveAll(dir)
		built.room = dir
		err = prepare()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/clients:", err)
		return 1
	}
	return m.Run()
}

func prepare() error {
	if err := os.CopyFS(built.room, testdata); err != nil {
		return err
	}
	if err := exec.Command("chmod", "-R", "a+rX", built.room).Run(); err != nil {
		return err
	}
	if err := fetch(); err != nil {
		return err
	}
	return findEngines()
}

// fetch has the clients installed, or says why they are not there.
func fetch() error {
	cmd := exec.Command("../../scripts/clients.sh")
	var text bytes.Buffer
	cmd.Stderr = &text
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		return lacks(fmt.Sprintf("clients: scripts/clients.sh: %v: %s", err, lines[len(lines)-1]))
	}
	built.fetched = strings.TrimSpace(string(out))
	return nil
}

// lacks is an error in CI, else it makes the tests skip.
func lacks(what string) error {
	if os.Getenv("CI") != "" {
		return fmt.Errorf("this host lacks %s", what)
	}
	built.why = "this host lacks " + what
	return nil
}

func findEngines() error {
	own, err := findBinary()
	if err != nil {
		return err
	}
	control, err := exec.LookPath("bwrap")
	if err != nil {
		return lacks("bubblewrap: " + err.Error())
	}
	for name, target := range map[string]string{"nsrun": own, "bubblewrap": control} {
		dir := filepath.Join(built.room, "engine-"+name)
		e := engine{name: name, path: filepath.Join(dir, "bwrap")}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, e.path); err != nil {
			return err
		}
		out, err := exec.Command(e.path, "--version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", e.path, err, out)
		}
		e.version = strings.TrimSpace(strings.TrimPrefix(string(out), "bubblewrap "))
		built.engines = append(built.engines, e)
	}
	return checkHost(control)
}

// checkHost makes sure that this host lets people have sandboxes at all.
func checkHost(bubblewrap string) error {
	for _, p := range people() {
		cmd := exec.Command(bubblewrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
		cmd.Dir = "/"
		if p.uid != os.Getuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return lacks(fmt.Sprintf("sandboxes for %s: %v: %s", p.name, err, out))
		}
	}
	return nil
}

// findBinary finds or builds nsrun.
func findBinary() (string, error) {
	if path := os.Getenv("NSRUN_BIN"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(built.room, "nsrun")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/nsrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nsrun: %w\n%s", err, text)
	}
	return path, os.Chmod(path, 0o755)
}

// TestEngines makes sure that nsrun is compared with something else, and knows which is which: only nsrun reads this variable.
func TestEngines(t *testing.T) {
	if len(built.engines) == 0 {
		t.Skip(built.why)
	}
	want := map[string]int{"nsrun": 1, "bubblewrap": 0}
	for _, e := range built.engines {
		cmd := exec.Command(e.path, "--ro-bind", "/", "/", "true")
		cmd.Env = append(os.Environ(), "NSRUN_BWRAP_LAYERS=nonsense")
		_ = cmd.Run()
		require.Equal(t, want[e.name], cmd.ProcessState.ExitCode(), "%s with a layer that nsrun does not know", e.name)
		t.Logf("%s is bubblewrap %s", e.name, e.version)
	}
}
