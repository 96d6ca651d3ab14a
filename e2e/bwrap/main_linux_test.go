package bwrap_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// built is what TestMain makes: a directory that every user can enter, and in it the programs.
var built struct {
	room     string
	inside   string // the directory of the fingerprint, which the cases bind
	finger   string
	oracles  []oracle // the one that is followed comes first
	underway string   // the binary under test
	isOurs   bool     // it is nsrun
	why      string   // reason that there is none, or no oracle
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := testenv.MakeDir("nsrun-bwrap-")
	if err == nil {
		defer os.RemoveAll(dir)
		built.room = dir
		err = prepare()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/bwrap:", err)
		return 1
	}
	code := m.Run()
	tally.print()
	return code
}

func prepare() error {
	built.inside = filepath.Join(built.room, "inside")
	built.finger = filepath.Join(built.inside, "fp")
	if err := os.Mkdir(built.inside, 0o755); err != nil {
		return err
	}
	if err := testenv.Build(built.finger, "./testdata/fingerprint"); err != nil {
		return err
	}
	if err := checkHost(); err != nil {
		return err
	}
	if err := findOracles(); err != nil {
		return err
	}
	return findBinary()
}

// findBinary finds or builds the binary under test and calls it bwrap.
func findBinary() error {
	dir := filepath.Join(built.room, "tested")
	built.underway = filepath.Join(dir, "bwrap")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	built.isOurs = os.Getenv("NSRUN_BWRAP_UNDER_TEST") == ""
	for _, name := range []string{"NSRUN_BWRAP_UNDER_TEST", "NSRUN_BIN"} {
		if path := os.Getenv(name); path != "" {
			path, err := filepath.Abs(path)
			if err != nil {
				return err
			}
			return os.Symlink(path, built.underway)
		}
	}
	if err := testenv.Build(filepath.Join(dir, "nsrun"), "../../cmd/nsrun"); err != nil {
		return err
	}
	return os.Symlink("nsrun", built.underway)
}

// checkHost says what makes all cases impossible.
func checkHost() error {
	cmd := exec.Command(built.finger, "exit", "0")
	cmd.SysProcAttr = ownUser()
	if err := cmd.Run(); err != nil {
		return lacks("user namespaces: " + err.Error())
	}
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

func need(t *testing.T) {
	t.Helper()
	if built.why != "" {
		t.Skip(built.why)
	}
}
