package backend

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/seccomp"
)

// The backend "docker": a container of Docker's or Podman's is the sandbox, nsrun's own binary is its pid 1, and starts the command by the
// same exec stages as elsewhere.
//
// The two talk over a Unix socket, and over it go the command, its environment, and the caller's standard descriptors themselves. So
// nothing of them is on a command line or in what "docker inspect" tells, not a byte of input or output passes through the daemon, and a
// daemon that is not on this kernel is found out: nobody connects. The end of the connection ends the container, however nsrun ended.

// Names inside of the container.
const channelName = "/.nsrun-channel"

// Docker is a plan as a container: what the CLI is told, and what pid 1 is.
type Docker struct {
	Args     []string // between "run" and the image; without those that name files of the private directory
	Losses   []plan.Note
	Resolved []mounts.Resolved

	view    *boxView
	request containerRequest
	filter  []byte // of seccomp, as OCI JSON; nil for none
}

// RenderDocker looks at this host as a run would, and writes p as a container of cli's.
func RenderDocker(p *plan.Plan, cli ContainerCLI) (*Docker, error) {
	if err := refuseDocker(p); err != nil {
		return nil, err
	}
	var host mounts.Host
	defer host.Close()
	l, err := Lower(p, &host, fds{report: 3, status: 4}, false)
	if err != nil {
		return nil, wrapLowering(err)
	}
	ops, err := materialize(p, l.Resolved, &host)
	if err != nil {
		return nil, err
	}
	view, err := newBoxView(ops, cli, p.Identity, &host)
	if err != nil {
		return nil, err
	}
	out := &Docker{Resolved: l.Resolved, view: view, Losses: slices.Concat(dockerLosses(p, cli), view.losses)}
	out.Args = slices.Concat(cli.args(p), view.args)
	out.request = containerRequest{RemoteRequest: remoteRequest(p, l.Resolved), Late: view.late, Mechanisms: p.Mechanisms}
	out.request.Locations = view.locations
	out.request.Dev = "/dev" // Docker's own is always there
	out.request.Limits = slices.Concat(otherLimits(), p.Limits)
	out.filter, err = containerFilter(p.Seccomp)
	return out, err
}

// refuseDocker names what a container cannot be.
func refuseDocker(p *plan.Plan) error {
	id := p.Identity
	switch {
	case p.Terminal:
		return &Error{Stage: "terminal", Err: errors.New("the backend docker cannot make a terminal"), Hint: "leave out --tty or --backend docker"}
	case id.UID != id.HostUID || id.GID != id.HostGID:
		return &Error{Stage: "identity", Err: fmt.Errorf("the backend docker cannot show uid %d gid %d as %d %d", id.HostUID, id.HostGID, id.UID, id.GID),
			Hint: "leave out --uid and --gid, or use --backend native"}
	}
	return nil
}

// containerFilter is what the container's pid 1 runs under: the plan's filter and what the exec stages need besides. The command gets all of
// its filters exactly, and from the exec stages.
func containerFilter(s *plan.Seccomp) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	p, err := seccomp.Lookup(s.Filter)
	if err != nil {
		return nil, nil // "off", beside filters of the exec stages
	}
	arch, err := seccomp.Host()
	if err != nil {
		return nil, err
	}
	data, err := seccomp.OCI(p, arch, "keyctl", "openat2") // for a session keyring of the command's own, and paths without symlinks
	if err != nil {
		return nil, &Error{Stage: "seccomp", Err: err}
	}
	return data, nil
}

// args are the flags that do not depend on files.
func (c ContainerCLI) args(p *plan.Plan) []string {
	id := p.Identity
	network := "none"
	if !slices.Contains(p.Namespaces, plan.Net) {
		network = "host"
	}
	args := []string{"--rm", "--pull=never", "--network=" + network, "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
		"--security-opt=label=disable", // SELinux would refuse what is granted, which has the host's labels
		fmt.Sprintf("--user=%d:%d", id.HostUID, id.HostGID), "--hostname=" + p.Hostname, "--ipc=private", "--cgroupns=private",
		"--log-driver=none", "--init=false", "--no-healthcheck", "--workdir=/", "--entrypoint=" + remoteBinary, "--sig-proxy=false"}
	if p.Container != nil {
		args = append(args, p.Container.Flags...)
	}
	args = append(args, ulimits()...)
	if c.Podman {
		args = append(args, "--read-only-tmpfs=false", "--no-hosts", "--systemd=false", "--http-proxy=false", "--passwd=false", "--image-volume=ignore")
		for _, name := range mounts.ProcMasked() {
			args = append(args, "--security-opt=mask=/proc/"+name)
		}
		if os.Geteuid() != 0 {
			args = append(args, "--userns=keep-id")
		}
	}
	return args
}

// ulimits gives the container this process's own limits, as any child of it would have them. The CLIs set the daemon's unless they are told, and
// name limits as the kernel does.
func ulimits() (args []string) {
	number := func(n uint64) string {
		if n == rlimit.Infinity {
			return "-1"
		}
		return fmt.Sprint(n)
	}
	for _, r := range rlimit.Resources() {
		if r.Name == addressSpace {
			continue
		}
		l, err := rlimit.Get(r.Name)
		if original, ok := rlimit.Original(); ok && original.Name == r.Name {
			l = original
		}
		if r.Kernel == "RLIMIT_NPROC" { // Podman takes away from itself, and so from what it can give, what nobody can use
			l.Soft, l.Hard = min(l.Soft, pidMax()), min(l.Hard, pidMax())
		}
		if err == nil {
			args = append(args, fmt.Sprintf("--ulimit=%s=%s:%s", strings.ToLower(strings.TrimPrefix(r.Kernel, "RLIMIT_")), number(l.Soft), number(l.Hard)))
		}
	}
	return args
}

// pidMax is how many processes the kernel can tell apart.
func pidMax() uint64 {
	data, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil {
		return n
	}
	return rlimit.Infinity
}

// addressSpace is the limit that the CLIs have no word for.
const addressSpace = "address_space"

// otherLimits are those of this process's own that the CLIs cannot set.
func otherLimits() []rlimit.Limit {
	if l, err := rlimit.Get(addressSpace); err == nil && l.Hard != rlimit.Infinity {
		return []rlimit.Limit{l}
	}
	return nil
}

// dockerLosses is what is lost by having a container for a backend.
func dockerLosses(p *plan.Plan, cli ContainerCLI) []plan.Note {
	const native = "use --backend native"
	losses := []plan.Note{
		{Feature: "trust", Loss: "the sandbox is made by a container engine, and is as good as that", Fix: native},
		{Feature: "mount flags", Loss: "what is granted is not mounted nosuid, nodev and noexec; no_new_privs, the backend's list of devices and Landlock stand in", Fix: native},
		{Feature: "mount points", Loss: "the backend makes them by name; that they are what was looked at is checked before the command starts", Fix: native},
		{Feature: "/dev", Loss: "it is the backend's own", Fix: native},
	}
	note := func(feature, loss string) {
		losses = append(losses, plan.Note{Feature: feature, Loss: loss, Fix: native})
	}
	if !cli.Podman {
		note("proc_masks", "the backend covers fewer places in /proc than nsrun: cmdline, kallsyms and their like can be read as far as the host's permissions go")
	}
	if groups, err := os.Getgroups(); err == nil && slices.ContainsFunc(groups, func(g int) bool { return g != p.Identity.HostGID }) {
		note("groups", "the command has the caller's user and group, and none of the other groups")
	}
	return losses
}

// runDocker runs a plan whose backend is a container.
func runDocker(p *plan.Plan, opts Options) (Outcome, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := checkHost(); err != nil {
		return Outcome{}, err
	}
	if err := refuseDocker(p); err != nil {
		return Outcome{}, err
	}
	cli, err := cliFor(p)
	if err != nil {
		return Outcome{}, err
	}
	box, err := RenderDocker(p, cli)
	if err != nil {
		return Outcome{}, err
	}
	if err := protect(p, box.Resolved, opts.Protected); err != nil {
		return Outcome{}, err
	}
	target, err := newSelfTestTarget(p)
	defer target.close()
	if err != nil {
		return Outcome{}, &Error{Stage: selfTestStage, Err: err}
	}
	target.Outside = slices.DeleteFunc(target.Outside, func(dir string) bool { return dir == "/sys" || dir == "/run" }) // a container has its own
	box.request.Target = target
	d := newDockerRun(p, opts, cli, box)
	defer d.close()
	err = d.all()
	d.mu.Lock()
	out := d.out
	d.mu.Unlock()
	out.Started, out.Resolved, out.Losses, out.Tried = d.started, box.Resolved, box.Losses, triedRemotely(p, target)
	if rules := box.request.Landlock; rules != nil {
		out.Rules = rules.Paths
	}
	return out, err
}
