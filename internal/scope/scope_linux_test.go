package scope

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/nsrun/nsrun/internal/scope/fake"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tree is where cgroups of version 2 are mounted.
func tree(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	return "/sys/fs/cgroup"
}

// movable reports whether this process may be moved in that tree.
func movable(t *testing.T) (mover *fake.Mover, own string) {
	t.Helper()
	dir := tree(t)
	own, _ = ownGroup()
	own = filepath.Join(dir, own)
	if unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil || unix.Access(filepath.Join(own, "cgroup.procs"), unix.W_OK) != nil {
		return nil, own
	}
	return &fake.Mover{Dir: dir}, own
}

func wish(t *testing.T, socket string) plan.Scope {
	return plan.Scope{Socket: socket, Tree: tree(t), Description: "nsrun run", Delegate: true, CollectMode: "inactive-or-failed"}
}

func goOn() error { return nil }

func groupNow(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	return string(text)
}

// short is a path of a socket's length: those of t.TempDir can be too long.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// TestManagers asks one of each kind. Whatever it does, it is told in time, and nothing is left.
func TestManagers(t *testing.T) {
	mover, own := movable(t)
	const late = "no answer within PATIENCE"
	for act, want := range map[fake.Act]string{
		fake.Refuses: "StartTransientUnit: it refuses: Permission denied (org.freedesktop.DBus.Error.AccessDenied)",
		fake.Silent:  "StartTransientUnit: " + late,
		fake.Undone:  "wait for the job: " + late,
		fake.Fails:   `its job ends with the result "failed"`,
		fake.Lies:    "its job is done, and this process is in ",
		fake.Garbage: "StartTransientUnit: what came is no message of D-Bus in this machine's byte order: 77 68 61 74",
		fake.Huge:    "StartTransientUnit: a message of 2130706432 bytes is more than is read here",
		fake.Closes:  "StartTransientUnit: it has closed the connection",
		fake.Mute:    "authenticate: " + late,
		fake.Rejects: `authenticate: it says "REJECTED EXTERNAL"`,
		fake.Starts:  "", fake.Unrelated: "",
	} {
		t.Run(string(act), func(t *testing.T) {
			before, files := groupNow(t), openFDs(t)
			move := func(int, string) error { return os.ErrPermission }
			if mover != nil {
				move = mover.Move
			} else if want == "" {
				want = `its job ends with the result "failed"`
			}
			timeout := testenv.Limit(0) // for those who answer
			if act == fake.Lies || strings.Contains(want, late) {
				timeout = testenv.Scale(200 * time.Millisecond)
			}
			var asked []fake.Ask
			var err error
			for again := true; again; timeout *= 2 {
				var m *fake.Manager
				m, err = fake.Listen(short(t), act, move)
				require.NoError(t, err)
				var dir string
				dir, err = Enter(wish(t, m.Socket), nil, timeout, goOn)
				var wrong error
				asked, wrong = m.Close()
				require.NoError(t, wrong)
				if mover != nil {
					now := groupNow(t)
					require.NoError(t, mover.Undo(own), "nothing is left in the scope")
					if want == "" {
						assert.Contains(t, now, "0::/"+filepath.Base(dir)+"\n")
					}
				}
				want := strings.ReplaceAll(want, "PATIENCE", timeout.String())
				// On a busy machine the time can be up before it comes to the silence, or to the lie: then it takes more.
				again = err != nil && !strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "no answer within "+timeout.String())
				if again {
					require.Less(t, timeout, testenv.Limit(0), "%v", err)
				} else if want != "" {
					require.ErrorContains(t, err, want)
				}
			}
			assert.Equal(t, before, groupNow(t))
			assert.Equal(t, files, openFDs(t))
			if want == "" {
				require.NoError(t, err)
			}
			if act == fake.Mute || act == fake.Rejects {
				assert.Empty(t, asked)
				return
			}
			require.Len(t, asked, 1)
			assert.Equal(t, fake.Ask{Unit: asked[0].Unit, Mode: "fail", PID: os.Getpid(), Properties: map[string]any{
				"PIDs": []uint32{0}, "Description": "nsrun run", "Delegate": true, "CollectMode": "inactive-or-failed"}}, asked[0])
			assert.Regexp(t, `^run-nsrun-[0-9a-f]+\.scope$`, asked[0].Unit)
		})
	}
}

// TestAScopeIsLookedAt enters what turns out to be of no use.
func TestAScopeIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	require.ErrorContains(t, usable(dir, nil), "cgroup.controllers: no such file or directory")
	write("cgroup.controllers", "cpuset memory pids\n", 0o444)
	require.ErrorContains(t, usable(dir, []string{"memory", "cpu"}), dir+" has not got the controllers cpu")
	require.ErrorContains(t, usable(dir, []string{"memory"}), "write "+dir+"/cgroup.procs: no such file or directory")
	write("cgroup.procs", "", 0o644)
	require.ErrorContains(t, usable(dir, []string{"memory"}), "cgroup.subtree_control: no such file or directory")
	write("cgroup.subtree_control", "", 0o644)
	require.NoError(t, usable(dir, []string{"memory", "pids"}))
}

// TestNoManager connects to what is none.
func TestNoManager(t *testing.T) {
	dir := short(t)
	_, err := Enter(wish(t, filepath.Join(dir, "no")), nil, Timeout, goOn)
	require.EqualError(t, err, "connect: no such file or directory")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = Enter(wish(t, filepath.Join(dir, "file")), nil, Timeout, goOn)
	require.EqualError(t, err, "connect: connection refused")
}

// TestWhoseManager connects to one of another user's, who would learn what is run, and keep it waiting.
func TestWhoseManager(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	socket := filepath.Join(short(t), "private")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: socket}))
	as := func(uid uintptr) {
		const same = ^uintptr(0)
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uid, same) // of this thread
		require.Zero(t, errno)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	as(12345)
	err = unix.Listen(fd, 1) // unix(7): SO_PEERCRED is of that moment
	as(0)
	require.NoError(t, err)
	_, err = Enter(wish(t, socket), nil, testenv.Limit(0), goOn)
	require.EqualError(t, err, "it is the user 12345's")
}

// TestOverABus has a manager on a real bus: it is asked through dbus-daemon, which has to be greeted.
func TestOverABus(t *testing.T) {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no dbus-daemon")
	}
	require.NoError(t, err, "CI has dbus-daemon")
	mover, own := movable(t)
	dir := short(t)
	socket := filepath.Join(dir, "bus")
	ctx, stop := context.WithCancel(t.Context())
	bus := exec.CommandContext(ctx, daemon, "--session", "--nofork", "--nopidfile", "--address=unix:path="+socket)
	runtime.LockOSThread() // see prctl(2), PR_SET_PDEATHSIG
	defer runtime.UnlockOSThread()
	bus.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	require.NoError(t, bus.Start())
	defer func() { stop(); _ = bus.Wait() }()
	var service *dbus.Conn
	testenv.Eventually(t, func() bool { // its socket is there before it listens
		service, err = dbus.Connect("unix:path="+socket, dbus.WithContext(ctx))
		return err == nil
	}, "the bus to listen")
	defer service.Close()
	s := &onBus{conn: service, mover: mover}
	require.NoError(t, service.Export(s, managerPath, managerIface))
	_, err = service.RequestName(managerName, dbus.NameFlagDoNotQueue)
	require.NoError(t, err)

	w := wish(t, socket)
	_, err = Enter(w, nil, time.Second, goOn)
	require.Error(t, err, "a bus that nobody has greeted")
	w.Bus = true
	got, err := Enter(w, nil, testenv.Limit(0), goOn)
	if mover == nil {
		require.ErrorContains(t, err, `its job ends with the result "failed"`)
		return
	}
	require.NoError(t, mover.Undo(own))
	require.NoError(t, err)
	assert.Equal(t, tree(t), filepath.Dir(got))
}

// onBus is a manager on a bus: its methods are the bus's.
type onBus struct {
	conn  *dbus.Conn
	mover *fake.Mover
}

// StartTransientUnit is that of org.freedesktop.systemd1(5).
func (s *onBus) StartTransientUnit(from dbus.Sender, unit, _ string, _ []fake.Property, _ []fake.Auxiliary) (
	dbus.ObjectPath, *dbus.Error,
) {
	var pid uint32
	if err := s.conn.BusObject().Call(busName+".GetConnectionUnixProcessID", 0, string(from)).Store(&pid); err != nil {
		return "", dbus.MakeFailedError(err)
	}
	result := "failed"
	if s.mover != nil && s.mover.Move(int(pid), unit) == nil {
		result = "done"
	}
	const job = dbus.ObjectPath(managerPath + "/job/7")
	if err := s.conn.Emit(managerPath, managerIface+".JobRemoved", uint32(7), job, unit, result); err != nil {
		return "", dbus.MakeFailedError(err)
	}
	return job, nil
}

// FuzzMessages reads what a manager may say.
func FuzzMessages(f *testing.F) {
	f.Add(call(1, managerPath, managerName, managerIface, "Subscribe", "", nil))
	e := &encoder{}
	e.u32(7)
	e.str("/job/7")
	e.str("x.scope")
	e.str("done")
	f.Add(call(1, managerPath, managerName, managerIface, "JobRemoved", "uoss", e.b))
	f.Add([]byte(strings.Repeat("l\x02\x00\x01", 10)))
	f.Fuzz(func(t *testing.T, b []byte) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(pair[0])
		c := &conn{fd: pair[0], deadline: time.Now().Add(testenv.Limit(0)), unit: "x.scope", in: b, stop: goOn}
		require.NoError(t, unix.Close(pair[1]))
		for range len(b) {
			m, err := c.receive()
			if err != nil {
				return
			}
			if m.kind == errorReply {
				assert.Error(t, m.remoteError())
			}
		}
		assert.Empty(t, b, "each message takes some of it: "+strconv.Quote(string(b)))
	})
}
