package backend_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// row is one way to see whether a guarantee holds.
type row struct {
	guarantee string
	act       string // of the helper, with places
	// keeps says that the guarantee holds if the act is done. Else it is broken by that, and without a sandbox the act must be done.
	keeps bool
	// host is a file of the host's: that it exists now (or with "!", that it does not; with "=", that it has not its old content) is what
	// counts as done, not what the helper says. "~" asks of the helper's
	// word that root has changed the times of the host's devices.
	host string
	// control is the act without a sandbox, where it is not the same.
	control string
	// lone says why a host may refuse the act without a sandbox too; then the refusal inside is no merit.
	lone string
	// test stands for an act, where it is more than that.
	test func(t *testing.T, b box, r receipt) sight
}

// sight is what was seen of a guarantee.
type sight struct {
	kept    bool
	what    string
	untried string // the reason, if it was not tried
}

const (
	yama    = "Yama may forbid it"
	roots   = "the host lets only root do that"
	modules = "the kernel may lack it"
)

// withoutLandlock is the excuse of a kernel that has none.
func withoutLandlock() string {
	if testenv.Landlock() == 0 {
		return "this kernel has no Landlock"
	}
	return ""
}

func rows() []row {
	all := slices.Concat(fileRows(), processRows(), selfRows())
	all = append(all, row{guarantee: "private_tmp", act: "home work {mark}", keeps: true, host: "{home}/{mark}"})
	for _, dir := range append(temporary(), "/run") {
		all = append(all, row{guarantee: "private_tmp", act: "private " + dir + " {mark}", keeps: true, host: dir + "/{mark}"})
	}
	all = append(all, row{guarantee: "tmp_bounds", act: "bounds", keeps: true})
	return append(all, tests()...)
}

// own is an act that breaks a guarantee, and that everybody can do without a sandbox.
func own(guarantee, act string) row { return row{guarantee: guarantee, act: act} }

// fileRows are about files and devices.
func fileRows() []row {
	return []row{
		own("sandbox", "unconfined {space}"),

		own("files", "read {secret}"), own("files", "read {work}/symlink"),
		{guarantee: "files", act: "read /proc/1/root{secret}", control: "read {secret}"},
		{guarantee: "files", act: "read /proc/{ppid}/root{secret}", control: "read {secret}"},
		{guarantee: "files", act: "read /proc/{ppid}/cwd/../secret", control: "read {secret}"},
		{guarantee: "files", act: "mkdir {home}/other/made", host: "{home}/other/made"},
		{guarantee: "files", act: "write {home}/other/write", host: "={home}/other/write"},
		{guarantee: "files", act: "cut {home}/other/cut", host: "={home}/other/cut"},
		{guarantee: "files", act: "unlink {home}/other/unlink", host: "!{home}/other/unlink"},
		{guarantee: "files", act: "rename {home}/other/rename {home}/other/renamed", host: "!{home}/other/rename"},
		{guarantee: "files", act: "rename {work}/kept {home}/other/kept", host: "{home}/other/kept"},
		{guarantee: "files", act: "link {secret} {work}/linked", host: "{work}/linked"},
		{guarantee: "files", act: "write {grant}/file", host: "={grant}/file"},
		{guarantee: "files", act: "mkdir {grant}/made", host: "{grant}/made"},

		own("view", "stat {secret}"), own("view", "watch {home}/other"), own("view", "chmod {home}/other/mode"),

		own("devices", "devices"), {guarantee: "devices", act: "usual", keeps: true}, {guarantee: "devices", act: "pty", keeps: true},
		{guarantee: "devices", act: "mknod {work}/node", host: "{work}/node", lone: roots},
		own("devices", "open {grant}/device"),
		{guarantee: "device_modes", act: "remode", host: "~", lone: roots},
	}
}

// processRows are about other processes, and ways to them.
func processRows() []row {
	return []row{
		own("processes", "signal {pid}"), own("processes", "tgkill {pid}"), own("processes", "pidfd {pid}"),
		{guarantee: "processes", act: "getfd {pid}", lone: yama}, {guarantee: "processes", act: "seize {pid}", lone: yama},
		{guarantee: "processes", act: "memory {pid}", lone: yama}, own("processes", "environ {pid} {mark}"),
		own("processes", "rlimit {pid}"), own("processes", "renice {pid}"), own("processes", "affinity {pid}"),
		own("processes", "ioprio {pid}"), own("processes", "schedule {pid}"),
		own("process_view", "cmdline {half1} {half2}"),
		{guarantee: "init", act: "look 1", control: "look {pid}", lone: yama},
		{guarantee: "init", act: "look {ppid}", control: "look {pid}", lone: yama},
		own("ownership", "owns"),

		own("network", "tcp {tcp}"), own("network", "udp {udp}"),
		{guarantee: "network", act: "vsock", lone: modules}, {guarantee: "loopback", act: "loopback {tcp}", keeps: true},
		own("unix_sockets", "unix {stream}"), own("unix_sockets", "unix @{mark}"),
		own("unix_sockets", "packet {datagram}"), own("unix_sockets", "packet @{mark}-datagram"),
		own("unix_sockets", "pair datagram {datagram}"), own("unix_sockets", "pair datagram @{mark}-datagram"),
		own("ipc", "shm {key}"), own("ipc", "sem {key}"), own("ipc", "msg {key}"),
		own("ipc", "shm-id {shm}"), own("ipc", "sem-id {sem}"), own("ipc", "msg-id {msg}"), {guarantee: "ipc", act: "mq {mq}", lone: modules},
	}
}

// selfRows are about what the command is.
func selfRows() []row {
	return []row{
		own("hostname", "hostname {host}"),
		own("identity", "accounts {accounts}"), own("identity", "ids"),
		{guarantee: "identity", act: "group {group}", lone: "only root can be in a group that nobody has"},
		own("privileges", "privileges"), {guarantee: "privileges", act: "gain", lone: modules},
		{guarantee: "privileges", act: "setid {setid} {nobody}", lone: "only root can make such a program"},
		{guarantee: "landlock", act: "domains", lone: withoutLandlock()},
		own("seccomp", "unfiltered"), {guarantee: "seccomp", act: "userns", lone: modules},
		{guarantee: "seccomp", act: "io_uring", lone: "kernel.io_uring_disabled may be set"},
		{guarantee: "seccomp", act: "userfaultfd", lone: modules},
		{guarantee: "seccomp", act: "fsopen", lone: roots},
		own("keyring", "key {mark}"), own("keyring", "request-key {mark}"), own("keyring", "user-key {mark}"),
		own("environment", "variable {mark}"), own("descriptors", "descriptors"),
	}
}

// done is whether an act was done, as far as the host can tell.
func (r row) done(w *world, one reply) bool {
	if r.host == "~" {
		return one.Done && (w.uid != 0 || w.deviceTimes() != w.times)
	}
	if r.host == "" || r.keeps {
		return one.Done
	}
	kind, name := r.host[:1], strings.TrimLeft(w.fill.Replace(r.host), "!=")
	data, err := os.ReadFile(name)
	_, missing := os.Lstat(name)
	switch kind {
	case "!":
		return missing != nil
	case "=":
		return err != nil || string(data) != "host" && string(data) != "granted"
	}
	return missing == nil
}

// observe says what an act inside shows.
func (r row) observe(w *world, one reply) sight {
	s := sight{kept: r.done(w, one) == r.keeps, what: one.String()}
	if r.keeps && r.host != "" { // it is done, but to whom
		if _, err := os.Lstat(w.fill.Replace(r.host)); err == nil {
			s.kept, s.what = false, s.what+", on the host"
		}
	}
	return s
}

// outside is the act without a sandbox.
func (r row) outside() row {
	if r.control != "" {
		r.act = r.control
	}
	return r
}

// lists gives the acts of rows as the helper takes them.
func lists(w *world, rows []row) (all [][]string) {
	for _, r := range rows {
		words := strings.Fields(r.act)
		for i := range words {
			words[i] = w.fill.Replace(words[i])
		}
		all = append(all, words)
	}
	return all
}
