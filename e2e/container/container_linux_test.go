package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/e2e/docker/daemon"
	"github.com/nsrun/nsrun/internal/testenv"
)

// image is what the tests' containers are made of: nsrun, a program to run, a secret, a directory to work in.
const image = "nsrun-inside:1"

var engine *daemon.Daemon

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) (code int) {
	dir, err := testenv.MakeDir("nsc-")
	if err == nil {
		defer os.RemoveAll(dir)
		engine, err = start(dir)
	}
	switch {
	case errors.Is(err, daemon.ErrMissing): // the tests say so
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e/container:", err)
		return 1
	default:
		defer func() {
			if err := engine.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "e2e/container:", err)
				code = 1
			}
		}()
	}
	return m.Run()
}

// start starts the engine and makes the image.
func start(dir string) (*daemon.Daemon, error) {
	at := filepath.Join(dir, "d")
	if err := os.Mkdir(at, 0o700); err != nil {
		return nil, err
	}
	d, err := daemon.Start(at)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "root")
	err = makeRoot(root)
	if err == nil {
		err = d.Import(root, image)
	}
	if err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

func makeRoot(root string) error {
	for name, mode := range map[string]os.FileMode{"bin": 0o755, "etc": 0o755, "proc": 0o755, "dev": 0o755, "sys": 0o755, "tmp": 0o777 | os.ModeSticky,
		"work": 0o777, "secret": 0o777, "usr/bin": 0o755} {
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(at, 0o755), os.Chmod(at, mode)); err != nil {
			return err
		}
	}
	for out, pkg := range map[string]string{"usr/bin/nsrun": "../../cmd/nsrun", "usr/bin/inside": "./testdata/inside"} {
		if err := testenv.Build(filepath.Join(root, out), pkg); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(root, "secret/key"), []byte("secret"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/:\nme:x:1000:1000::/home/me:\n"), 0o644))
}

// need skips the test, or in CI fails it, without an engine.
func need(t *testing.T) {
	t.Helper()
	if engine != nil {
		return
	}
	why := "no Docker engine: it takes root, and the package docker.io"
	if os.Getenv("CI") != "" && os.Geteuid() == 0 {
		t.Fatal(why)
	}
	t.Skip(why)
}

// in runs a command in a container that docker run's options make.
func in(t *testing.T, options []string, command ...string) (stdout, stderr string, code int) {
	t.Helper()
	args := append([]string{"run", "--rm", "--network=none", "--workdir=/work"}, options...)
	cmd := engine.Docker(append(append(args, image), command...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// result is what the tests read of a run's result.
type result struct {
	Verdict string
	Receipt struct {
		Backend, Network, Capabilities string
		NetworkBy                      string `json:"network_by"`
		KillTree                       string `json:"kill_tree"`
		NoNewPrivs                     bool   `json:"no_new_privs"`
		Namespaces, Holds, Lost        []string
		Landlock                       *struct{ ABI, Rules int }
		Seccomp                        *struct{ Filters int }
	}
}

// sandboxed runs the inspecting program in a sandbox in a container, and returns what it found and the result.
func sandboxed(t *testing.T, options []string, flags ...string) (sight, result, string) {
	t.Helper()
	args := append([]string{"/usr/bin/inside", "/usr/bin/nsrun", "run", "--workspace", "/work", "--result", "FD:1"}, flags...)
	out, errs, code := in(t, options, append(args, "--", "inside")...)
	require.Zero(t, code, "%s%s", out, errs)
	lines := strings.SplitN(out, "\n", 3)
	require.Len(t, lines, 3, out)
	var control, found map[string]string
	var r result
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &control), out)
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &found), out)
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &r), out)
	return sight{found, control}, r, errs
}

// sight is what the program found in the sandbox, and, as the positive control, without one in the same container.
type sight struct{ found, control map[string]string }

// users are whom containers run as.
var users = map[string][]string{"root": nil, "user": {"--user=1000:1000"}}

// TestDefaultContainer is nsrun in a container as docker run makes one.
func TestDefaultContainer(t *testing.T) {
	need(t)
	for who, options := range users {
		t.Run(who, func(t *testing.T) {
			out, _, code := in(t, options, "/usr/bin/nsrun", "doctor")
			verdict, rest, _ := strings.Cut(out, "\n\nkernel ")
			assert.Equal(t, 1, code)
			assert.Contains(t, verdict, "this host cannot enforce the default policy\n  user_namespace: ")
			assert.Contains(t, verdict, "found: clone: operation not permitted; a seccomp filter is on this process, as in a container")
			assert.Contains(t, verdict, "fix: start the container with docker run --security-opt seccomp=unconfined")
			assert.Contains(t, rest, "\ninside of docker\n")
			assert.Contains(t, rest, "with --fallback degrade a run would use landlock\n")

			out, errs, code := in(t, options, "/usr/bin/nsrun", "run", "--workspace", "/work", "--", "inside")
			assert.Equal(t, 125, code, "strict refuses")
			assert.Empty(t, out, "before anything has run")
			assert.Contains(t, errs, "--security-opt seccomp=unconfined")
			assert.Contains(t, errs, "with fallback degrade (--fallback degrade) the backend landlock would run it, without the guarantees view, places,")

			seen, r, errs := sandboxed(t, options, "--fallback", "degrade", "--self-test")
			assert.Equal(t, "landlock", r.Receipt.Backend)
			assert.Contains(t, errs, "nsrun: note: backend landlock in place of native; lost: view, places, ")
			landlocked(t, seen.found, r)
			control := seen.control
			for _, act := range []string{"read_outside", "write_outside", "write_tmp", "loopback"} {
				assert.Equal(t, "done", control[act], "positive control: %s", act)
			}
		})
	}
}

// landlocked compares a receipt of the backend landlock with what was found inside.
func landlocked(t *testing.T, found map[string]string, r result) {
	t.Helper()
	assert.Equal(t, "ok", r.Verdict)
	assert.Equal(t, "seccomp", r.Receipt.NetworkBy)
	assert.Equal(t, "Landlock domain", r.Receipt.KillTree)
	assert.Empty(t, r.Receipt.Namespaces)
	assert.True(t, r.Receipt.NoNewPrivs)
	assert.Equal(t, "1", found["NoNewPrivs"])
	assert.Equal(t, "0000000000000000", found["CapEff"])
	assert.Equal(t, "0000000000000000", found["CapPrm"])
	assert.Equal(t, "2", found["Seccomp"])
	for _, act := range []string{"read_outside", "write_outside", "write_tmp", "loopback", "unshare", "vsock", "signal"} {
		assert.NotEqual(t, "done", found[act], act)
	}
	assert.Equal(t, "done", found["write_granted"])
	assert.Equal(t, "done", found["see_outside"], "the receipt says that view is lost")
	assert.Contains(t, r.Receipt.Lost, "view")
	assert.Contains(t, r.Receipt.Holds, "files")
}

// options that a container needs for the backend native: nothing less will do, as TestEachOptionIsNeeded holds.
var options = []string{"--security-opt=seccomp=unconfined", "--security-opt=systempaths=unconfined"}

// TestSmallestOptions is nsrun in a container with just what the backend native takes.
func TestSmallestOptions(t *testing.T) {
	need(t)
	for who, user := range users {
		t.Run(who, func(t *testing.T) {
			with := append(append([]string{}, options...), user...)
			out, _, code := in(t, with, "/usr/bin/nsrun", "doctor")
			assert.Zero(t, code, out)
			assert.True(t, strings.HasPrefix(out, "this host can enforce the default policy\nself-test: "), out)

			seen, r, errs := sandboxed(t, with, "--self-test")
			found, control := seen.found, seen.control
			assert.Empty(t, errs)
			assert.Equal(t, "native", r.Receipt.Backend)
			assert.Empty(t, r.Receipt.Lost, "every guarantee holds")
			assert.Equal(t, "network namespace", r.Receipt.NetworkBy)
			assert.Equal(t, "1", found["processes"], "itself; pid 1 is hidden")
			for _, act := range []string{"read_outside", "see_outside", "write_outside", "unshare", "vsock"} {
				assert.NotEqual(t, "done", found[act], act)
			}
			for _, act := range []string{"write_granted", "write_tmp", "loopback"} {
				assert.Equal(t, "done", found[act], act)
			}
			for _, ns := range r.Receipt.Namespaces {
				name := map[string]string{"mount": "mnt"}[ns]
				if name == "" {
					name = ns
				}
				if at := control["ns_"+name]; at != "" {
					assert.NotEqual(t, at, found["ns_"+name], "a namespace of the sandbox's own: %s", ns)
				}
			}
		})
	}
}

// TestEachOptionIsNeeded leaves one out at a time: doctor names it, and the ladder lands on landlock.
func TestEachOptionIsNeeded(t *testing.T) {
	need(t)
	for i, option := range options {
		rest := append(append([]string{}, options[:i]...), options[i+1:]...)
		out, _, code := in(t, rest, "/usr/bin/nsrun", "doctor")
		verdict, _, _ := strings.Cut(out, "\n\nkernel ")
		assert.Equal(t, 1, code)
		assert.Contains(t, verdict, "--security-opt "+strings.TrimPrefix(option, "--security-opt="), "the one action")
		_, r, _ := sandboxed(t, rest, "--fallback", "degrade")
		assert.Equal(t, "landlock", r.Receipt.Backend, rest)
	}
}

// TestRestrictedPod is what Kubernetes's restricted profile comes to: an ordinary user, no capabilities, no new privileges, a read-only root.
func TestRestrictedPod(t *testing.T) {
	need(t)
	with := []string{"--user=1000:1000", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only", "--tmpfs=/work:mode=1777,exec"}
	seen, r, _ := sandboxed(t, with, "--fallback", "degrade", "--require", "files,network,kill_tree,unix_sockets,privileges,seccomp", "--self-test")
	assert.Equal(t, "landlock", r.Receipt.Backend)
	landlocked(t, seen.found, r)
	const noHome = "no place for HOME and TMPDIR"
	_, errs, code := in(t, with, "/usr/bin/nsrun", "run", "-v", "--workspace", "/work", "--fallback", "degrade", "--", "inside")
	assert.Zero(t, code)
	assert.Contains(t, errs, noHome)
	_, errs, code = in(t, with, "/usr/bin/nsrun", "run", "--workspace", "/work", "--backend", "landlock", "--", "inside")
	assert.Equal(t, 125, code, "without fallback degrade the loss is refused")
	assert.Contains(t, errs, noHome)
	_, errs, code = in(t, append([]string{"--tmpfs=/tmp"}, with...), "/usr/bin/nsrun", "run", "-v", "--workspace", "/work", "--fallback", "degrade", "--", "inside")
	assert.Zero(t, code)
	assert.NotContains(t, errs, noHome, "a volume at /tmp has it")
	_, errs, code = in(t, with, "/usr/bin/nsrun", "run", "--workspace", "/work", "--fallback", "degrade", "--require", "view", "--", "inside")
	assert.Equal(t, 125, code)
	assert.Contains(t, errs, "nor can the backend landlock: view: ")
}

// TestAllowedPod is what a pod with procMount Unmasked and seccompProfile Unconfined comes to, restricted otherwise.
func TestAllowedPod(t *testing.T) {
	need(t)
	with := append([]string{"--user=1000:1000", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only", "--tmpfs=/work:mode=1777,exec"}, options...)
	_, r, _ := sandboxed(t, with, "--self-test")
	assert.Equal(t, "native", r.Receipt.Backend)
	assert.Empty(t, r.Receipt.Lost)
}
