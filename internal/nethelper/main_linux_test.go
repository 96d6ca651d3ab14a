package nethelper

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var program string

// isHelper says that this process is a helper: of a program that links a C library, where the tests are built so.
const isHelper = "NSRUN_TEST_IS_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(isHelper) != "" {
		Main("test")
		os.Exit(0)
	}
	os.Exit(testenv.Main(func() int {
		dir, err := testenv.MakeDir("nsrun-helper-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "nsrun-helper")
		if err := testenv.Build(program, "../../cmd/nsrun-helper"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// helper is a helper that runs.
type helper struct {
	t      testing.TB
	cmd    *exec.Cmd
	socket int
}

// start starts the helper, and sends it what to serve.
func start(t testing.TB, s netmessage.Start, sockets ...*os.File) *helper {
	t.Helper()
	cmd := exec.Command(program)
	return startAs(t, cmd, s, sockets...)
}

func startAs(t testing.TB, cmd *exec.Cmd, s netmessage.Start, sockets ...*os.File) *helper {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = append(append(os.Environ(), "GODEBUG="), cmd.Env...), os.Stderr, []*os.File{theirs}
	require.NoError(t, cmd.Start())
	theirs.Close()
	t.Cleanup(func() { unix.Close(pair[0]); _ = cmd.Wait() })
	fds := make([]int, len(sockets))
	for i, f := range sockets {
		fds[i] = int(f.Fd())
	}
	require.NoError(t, wire.Send(pair[0], s, fds...))
	return &helper{t, cmd, pair[0]}
}

// event receives the next event. It is empty at the end of the socket.
func (h *helper) event() (e netmessage.Event) {
	h.t.Helper()
	b := make([]byte, netmessage.MaxEvent)
	n, _, err := unix.Recvfrom(h.socket, b, 0)
	require.NoError(h.t, err)
	if n > 0 {
		require.NoError(h.t, json.Unmarshal(b[:n], &e))
	}
	return e
}

// proxy opens a listener, and returns its address.
func proxy(t testing.TB) (f *os.File, addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	f, err = l.(*net.TCPListener).File()
	require.NoError(t, err)
	l.Close()
	t.Cleanup(func() { f.Close() })
	return f, l.Addr().String()
}

// connect asks a proxy for a connection, and returns it and the first line of the answer.
func connect(t testing.TB, proxy, to string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp4", proxy)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	b := make([]byte, 512)
	n, _ := c.Read(b)
	line, _, _ := strings.Cut(string(b[:n]), "\r\n")
	return c, line
}

func TestTheHelperServesUntilNsrunEndsIt(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	f, addr := proxy(t)
	h := start(t, netmessage.Start{Rules: []string{l.Addr().String(), "no-such-host.invalid:443"}, Sockets: []string{netmessage.Proxy}}, f)
	require.Equal(t, netmessage.Event{Ready: true}, h.event())

	c, line := connect(t, addr, l.Addr().String())
	require.Contains(t, line, "200")
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(got))

	_, line = connect(t, addr, "example.com:443")
	assert.Contains(t, line, "403")
	refusal := h.event().Refusal
	require.NotNil(t, refusal)
	assert.Equal(t, "example.com", refusal.Name)
	_, line = connect(t, addr, "no-such-host.invalid:443")
	assert.Contains(t, line, "502", "the resolver works in the confinement")
	refusal = h.event().Refusal
	require.NotNil(t, refusal)
	assert.Equal(t, netmessage.Unresolvable, refusal.Reason)

	require.NoError(t, unix.Shutdown(h.socket, unix.SHUT_WR))
	e := h.event()
	require.NotNil(t, e.Summary)
	assert.Equal(t, []netmessage.Name{{Name: "127.0.0.1", Connections: 1, Sent: 5, Received: 5}}, e.Summary.Names)
	assert.Len(t, e.Summary.Refusals, 2)
	assert.NoError(t, h.cmd.Wait(), "exit code 0")
}

func TestTheHelperEndsWithNsrun(t *testing.T) {
	f, _ := proxy(t)
	h := start(t, netmessage.Start{Sockets: []string{netmessage.Proxy}}, f)
	require.True(t, h.event().Ready)
	unix.Close(h.socket)
	testenv.Returns(t, "the helper", func() { _ = h.cmd.Wait() })
	h.socket = -1
}

// TestAKilledHelperLeavesNoWay: connections are reset, and there is no listener any more.
func TestAKilledHelperLeavesNoWay(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f, addr := proxy(t)
	h := start(t, netmessage.Start{Rules: []string{l.Addr().String()}, Sockets: []string{netmessage.Proxy}}, f)
	require.True(t, h.event().Ready)
	f.Close()
	c, line := connect(t, addr, l.Addr().String())
	require.Contains(t, line, "200")
	require.NoError(t, h.cmd.Process.Kill())
	_ = h.cmd.Wait()
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err)
	_, err = net.Dial("tcp4", addr)
	assert.ErrorIs(t, err, unix.ECONNREFUSED)
}

func TestTheHelperReportsWhatItCannotServe(t *testing.T) {
	f, _ := proxy(t)
	for _, s := range []netmessage.Start{
		{Rules: []string{"*"}, Sockets: []string{netmessage.Proxy}},
		{Sockets: []string{"telepathy"}},
		{Sockets: []string{netmessage.Proxy, netmessage.DNS}},
		{Sockets: []string{netmessage.UDP}},
	} {
		h := start(t, s, f)
		assert.NotEmpty(t, h.event().Error)
		var exit *exec.ExitError
		require.ErrorAs(t, h.cmd.Wait(), &exit)
		assert.Equal(t, exitUsage, exit.ExitCode())
	}
}

// TestTheHelperIsConfined reads what the kernel reports of every thread.
func TestTheHelperIsConfined(t *testing.T) {
	f, _ := proxy(t)
	h := start(t, netmessage.Start{Sockets: []string{netmessage.Proxy}}, f)
	require.True(t, h.event().Ready)
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(h.cmd.Process.Pid) + "/task/*/status")
	require.NoError(t, err)
	require.NotEmpty(t, tasks)
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		require.NoError(t, err)
		for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
			assert.Contains(t, string(status), want, task)
		}
	}
}

func TestByHandItSaysWhatItIs(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"--help"}} {
		out, err := exec.Command(program, args...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, exitUsage, exit.ExitCode())
		assert.Equal(t, 1, strings.Count(string(out), "\n"))
		assert.Contains(t, string(out), "--net allow")
	}
	out, err := exec.Command(program, "--version").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "nsrun-helper ")
}

// BenchmarkStart is the time from exec to Ready.
func BenchmarkStart(b *testing.B) {
	f, _ := proxy(b)
	for b.Loop() {
		begin := time.Now()
		h := start(b, netmessage.Start{Rules: []string{"example.com"}, Sockets: []string{netmessage.Proxy}}, f)
		require.True(b, h.event().Ready)
		b.ReportMetric(float64(time.Since(begin).Microseconds()), "us/last")
		b.StopTimer()
		require.NoError(b, unix.Shutdown(h.socket, unix.SHUT_WR))
		_ = h.cmd.Wait()
		b.StartTimer()
	}
}

// TestDescriptorsOfTheCallerAreClosed: nsrun's caller may have left some open.
func TestDescriptorsOfTheCallerAreClosed(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	secret, err := os.Open("/etc/hostname")
	require.NoError(t, err)
	defer secret.Close()
	cmd := exec.Command(program)
	cmd.ExtraFiles = []*os.File{theirs, secret, secret}
	require.NoError(t, cmd.Start())
	theirs.Close()
	t.Cleanup(func() { _ = cmd.Wait() })
	require.NoError(t, wire.Send(pair[0], netmessage.Start{}))
	h := &helper{t, cmd, pair[0]}
	require.True(t, h.event().Ready)
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid))
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, entry := range list {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", cmd.Process.Pid, entry.Name()))
		assert.NotEqual(t, "/etc/hostname", to)
	}
	require.NoError(t, unix.Shutdown(pair[0], unix.SHUT_WR))
}
