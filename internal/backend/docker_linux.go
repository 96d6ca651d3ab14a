package backend

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/seccomp"
)

// With the backend "docker" the sandbox is a container of Docker or Podman. Its pid 1 is nsrun's own binary, which starts the command by
// the same exec stages as the other backends.
//
// nsrun and that pid 1 communicate over a Unix socket. The command, its environment and the caller's standard descriptors go over it. So
// none of them is on a command line or in the output of "docker inspect", no input or output passes through the daemon, and a daemon on
// another kernel is detected, because no pid 1 connects. The end of the connection ends the container, however nsrun has ended.

// channelName is the path of that socket in the container.
const channelName = "/.nsrun-channel"

// Docker is a plan as a container: the arguments of the CLI, and the request for pid 1.
type Docker struct {
	Args     []string // between "run" and the image, without those that name files in the private directory
	Losses   []plan.Note
	Resolved []mounts.Resolved

	view    *boxView
	request containerRequest
	filter  []byte // of seccomp, as OCI JSON; nil for none
}

// RenderDocker resolves p on this host, as a run would, and returns it as a container for cli.
func RenderDocker(p *plan.Plan, cli ContainerCLI) (*Docker, error) {
	if err := refuseDocker(p); err != nil {
		return nil, err
	}
	var host mounts.Host
	defer host.Close()
	l, err := stages.Lower(p, &host, stages.FDs{Report: 3, Status: 4}, false)
	if err != nil {
		return nil, wrapLowering(err, p)
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
	request, err := remoteRequest(p, l.Resolved)
	if err != nil {
		return nil, err
	}
	out.request = containerRequest{RemoteRequest: request, Late: view.late, Mechanisms: p.Mechanisms}
	out.request.Locations = view.locations
	out.request.Dev = "/dev" // every container has its own
	out.request.Limits = slices.Concat(otherLimits(), p.Limits)
	out.filter, err = containerFilter(p.Seccomp)
	return out, err
}

// refuseDocker returns an error for a plan that no container can carry out.
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

// containerFilter returns the filter for the container's pid 1: the plan's filter, with the calls that the exec stages need besides. The
// exec stages give the command exactly its own filters.
func containerFilter(s *plan.Seccomp) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	p, err := seccomp.Lookup(s.Filter)
	if err != nil {
		return nil, nil // the exec stages install the only filters
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

// args returns the flags that do not depend on files.
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

// ulimits returns the flags that give the container this process's own limits, which a child would inherit. Without them the CLIs set the
// daemon's limits. They use the kernel's names.
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
		if r.Kernel == "RLIMIT_NPROC" { // Podman lowers its own limit to this number first, and can give no more
			l.Soft, l.Hard = min(l.Soft, pidMax()), min(l.Hard, pidMax())
		}
		if err == nil {
			args = append(args, fmt.Sprintf("--ulimit=%s=%s:%s", strings.ToLower(strings.TrimPrefix(r.Kernel, "RLIMIT_")), number(l.Soft), number(l.Hard)))
		}
	}
	return args
}

// pidMax returns the number of processes that the kernel can distinguish.
func pidMax() uint64 {
	data, _ := sys.ReadFile("/proc/sys/kernel/pid_max")
	if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil {
		return n
	}
	return rlimit.Infinity
}

// addressSpace is the limit that the CLIs have no name for.
const addressSpace = "address_space"

// otherLimits returns this process's limits that the CLIs cannot set.
func otherLimits() []rlimit.Limit {
	if l, err := rlimit.Get(addressSpace); err == nil && l.Hard != rlimit.Infinity {
		return []rlimit.Limit{l}
	}
	return nil
}

// dockerLosses returns the parts of a plan that a container cannot carry out.
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

// runDocker runs a plan with the backend docker.
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
	target, err := stages.NewSelfTestTarget(p)
	if err != nil {
		return Outcome{}, &Error{Stage: stages.SelfTestStage, Err: err}
	}
	defer target.Close()
	target.Outside = slices.DeleteFunc(target.Outside, func(dir string) bool { return dir == "/run" }) // a container has its own
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
