package docker_test

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

// built is what TestMain makes: a directory that every user can enter, the programs, and the daemon.
var built struct {
	room   string
	nsrun  string
	probe  string
	daemon *daemon.Daemon
	path   string // a PATH with docker and no podman
	why    string // reason that there is no daemon
}

// userID is an ordinary user that the daemon's socket belongs to. Nobody else has this number.
const userID = 54321

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) (code int) {
	dir, err := testenv.MakeDir("nsd-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/docker:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.room = dir
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/docker:", err)
		return 1
	}
	if built.daemon != nil {
		defer func() {
			if err := built.daemon.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "e2e/docker: the daemon has left something:", err)
				code = 1
			}
		}()
	}
	return m.Run()
}

func prepare() error {
	built.nsrun, built.probe = filepath.Join(built.room, "bin", "nsrun"), filepath.Join(built.room, "probe", "probe")
	for out, pkg := range map[string]string{built.nsrun: "../../cmd/nsrun", built.probe: "./testdata/probe"} {
		if err := testenv.Build(out, pkg); err != nil {
			return err
		}
	}
	if err := startDaemon(); !errors.Is(err, daemon.ErrMissing) {
		return err
	} else if os.Getenv("CI") != "" && os.Geteuid() == 0 {
		return err
	} else {
		built.why = err.Error()
	}
	return nil
}

func startDaemon() error {
	dir := filepath.Join(built.room, "d")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	d, err := daemon.Start(dir)
	if err != nil {
		return err
	}
	built.daemon = d
	built.path = filepath.Join(built.room, "path")
	docker, err := exec.LookPath("docker")
	return errors.Join(err, os.Mkdir(built.path, 0o755), os.Symlink(docker, built.path+"/docker"), os.Chown(dir+"/docker.sock", 0, userID))
}

// need skips a test that takes the daemon.
func need(t *testing.T) {
	t.Helper()
	if built.daemon == nil {
		t.Skip(built.why)
	}
}
