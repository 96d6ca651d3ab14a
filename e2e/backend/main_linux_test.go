package backend_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/e2e/docker/daemon"
	"github.com/nsrun/nsrun/internal/testenv"
)

// built is what TestMain makes: a directory that every user can enter, the programs, and a Docker daemon.
var built struct {
	room    string
	nsrun   string
	act     string // alone in its directory, which sandboxes see
	unlucky string
	setID   string // the same program, set-id to a user that nobody is
	docker  *daemon.Daemon
	why     string // reason that there is no daemon
	path    string // a PATH with docker and no podman
}

// nobodyElse is the owner of the set-id program; as an id of a user's own it must not be in use.
const nobodyElse = 65532

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) (code int) {
	dir, err := testenv.MakeDir("nse-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/backend:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.room = dir
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/backend:", err)
		return 1
	}
	if built.docker != nil {
		defer func() {
			if err := built.docker.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "e2e/backend: the daemon has left something:", err)
				code = 1
			}
		}()
	}
	return m.Run()
}

func prepare() error {
	built.nsrun, built.act = filepath.Join(built.room, "bin", "nsrun"), filepath.Join(built.room, "act", "act")
	built.unlucky = filepath.Join(built.room, "bin", "unlucky")
	for out, pkg := range map[string]string{built.nsrun: "../../cmd/nsrun", built.act: "./testdata/act", built.unlucky: "./testdata/unlucky"} {
		if err := testenv.Build(out, pkg); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		built.why = "only root can start a Docker daemon"
		return nil
	}
	if err := makeSetID(); err != nil {
		return err
	}
	if !testenv.All() {
		built.why = "the tier all tries backend docker"
		return nil
	}
	err := startDocker()
	if errors.Is(err, daemon.ErrMissing) && os.Getenv("CI") == "" {
		built.why, err = err.Error(), nil
	}
	return err
}

// makeSetID copies the program for a user that has nothing and is nobody.
func makeSetID() error {
	built.setID = filepath.Join(built.room, "act", "set-id")
	data, err := os.ReadFile(built.act)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(built.setID, data, 0o755), os.Chown(built.setID, nobodyElse, nobodyElse),
		os.Chmod(built.setID, os.ModeSetuid|0o755))
}

func startDocker() error {
	dir := filepath.Join(built.room, "d")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	d, err := daemon.Start(dir)
	if err != nil {
		return err
	}
	built.docker, built.path = d, filepath.Join(built.room, "path")
	docker, err := exec.LookPath("docker")
	uid, gid := ordinary()
	return errors.Join(err, os.Mkdir(built.path, 0o755), os.Symlink(docker, filepath.Join(built.path, "docker")),
		os.Chown(filepath.Join(dir, "docker.sock"), uid, gid))
}
