package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// built is what TestMain makes: a directory for all that the tests need on the host, and in it the two programs.
var built struct {
	room  string
	nsrun string
	probe string // alone in its directory, which sandboxes see
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := testenv.MakeDir("nsrun-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		built.room = dir
		err = build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

func build() error {
	built.nsrun = filepath.Join(built.room, "bin", "nsrun")
	built.probe = filepath.Join(built.room, "probe", "probe")
	for out, pkg := range map[string]string{built.nsrun: "../cmd/nsrun", built.probe: "./testdata/probe"} {
		if err := testenv.Build(out, pkg); err != nil {
			return err
		}
	}
	return nil
}

// need skips the test, or in CI fails it, unless the host has what it takes.
func need(t *testing.T, have bool, what string) {
	t.Helper()
	if have {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this host lacks: " + what)
	}
	t.Skip("this host lacks: " + what)
}
