package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNothingIsOpened: what is looked up is not opened, nor read. The writer of a FIFO goes on waiting for a reader, and inotify reports nothing.
func TestNothingIsOpened(t *testing.T) {
	for _, w := range worlds(t) {
		t.Run(w.name, func(t *testing.T) {
			w.fresh(t)
			fifo, file := w.hidden+"/fifo", w.hidden+"/file"
			require.NoError(t, unix.Mkfifo(fifo, 0o666))
			w.own(t, fifo)
			w.write(t, file, "text", 0o755)
			defer w.listen(t).Close()
			names := []string{w.hidden, fifo, file, w.hidden + "/socket"}
			if os.Getuid() == 0 {
				device := w.hidden + "/device"
				require.NoError(t, unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))) // zero
				names = append(names, device)
			}
			opened := opens(t, names)
			writes := make(chan error, 1)
			go func() { // waits for a reader: fifo(7)
				f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
				if err == nil {
					err = f.Close()
				}
				writes <- err
			}()
			testenv.Eventually(t, inOpen, "a writer that waits")
			for _, name := range names {
				for _, act := range []string{"open", "create", "exec", "unix"} {
					without, with := w.explained(t, "", built.hostile, act, name), w.explained(t, "--explain=all", built.hostile, act, name)
					assert.Equal(t, answers(t, without.out), answers(t, with.out))
					if socket := strings.HasSuffix(name, "/socket"); act == "open" && !socket || act == "unix" && socket {
						assert.True(t, has(with.Denials, name), "%s is looked up: %+v", name, with.Denials)
					}
				}
			}
			assert.Empty(t, opened(), "nothing is opened")
			select {
			case err := <-writes:
				t.Errorf("the writer goes on: %v", err)
			default:
			}
			// The controls: an open is seen, and wakes the writer.
			f, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
			require.NoError(t, err)
			assert.NoError(t, testenv.Receive(t, writes, "the writer to go on"))
			f.Close()
			assert.Contains(t, opened(), fifo)
			_, err = os.ReadFile(file)
			require.NoError(t, err)
			assert.Contains(t, opened(), file)
		})
	}
}

// inOpen reports whether a thread of this process waits in an open: proc(5), /proc/PID/task/TID/syscall.
func inOpen() bool {
	all, _ := filepath.Glob("/proc/self/task/*/syscall")
	for _, name := range all {
		text, _ := os.ReadFile(name)
		if strings.HasPrefix(string(text), fmt.Sprintf("%d ", unix.SYS_OPENAT)) {
			return true
		}
	}
	return false
}

// opens watches paths, and returns a function that lists those that were opened or read since it was called last.
func opens(t *testing.T, names []string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	watched := map[int32]string{}
	for _, name := range names {
		wd, err := unix.InotifyAddWatch(fd, name, unix.IN_OPEN|unix.IN_ACCESS|unix.IN_MODIFY)
		require.NoError(t, err)
		watched[int32(wd)] = name
	}
	return func() (found []string) {
		buf := make([]byte, 1<<16)
		n, err := unix.Read(fd, buf)
		if err == unix.EAGAIN {
			return nil
		}
		require.NoError(t, err)
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			event := buf[at:]
			found = append(found, watched[int32(uint32(event[0])|uint32(event[1])<<8|uint32(event[2])<<16|uint32(event[3])<<24)])
			at += unix.SizeofInotifyEvent + int(uint32(event[12])|uint32(event[13])<<8|uint32(event[14])<<16|uint32(event[15])<<24)
		}
		return found
	}
}

// hanging are file systems on which a look at a file waits for ever: the process that serves them does not answer.
var hanging = map[string]func(t *testing.T, dir string) (end func()){"fuse": mountFUSE, "autofs": mountAutofs}

// mountFUSE mounts a FUSE file system whose server never answers: fuse(4). To end it is to abort what waits.
func mountFUSE(t *testing.T, dir string) func() {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	need(t, err == nil, "FUSE")
	require.NoError(t, unix.Mount("hanging", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)))
	return func() {
		unix.Close(fd)
		assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	}
}

// mountAutofs mounts an autofs whose daemon never answers, for all process groups but that of the tests.
func mountAutofs(t *testing.T, dir string) func() {
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	err := unix.Mount("hanging", dir, "autofs", 0, fmt.Sprintf("fd=%d,minproto=5,maxproto=5,indirect", p[1]))
	unix.Close(p[1])
	need(t, err != unix.ENODEV, "autofs")
	require.NoError(t, err)
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return func() {
		const catatonic = 0x9362 // AUTOFS_IOC_CATATONIC: what waits is aborted
		assert.NoError(t, unix.IoctlSetInt(root, catatonic, 0))
		unix.Close(root)
		unix.Close(p[0])
		assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	}
}

// TestHangingFileSystems: nsrun does not wait for a file system that is hidden from the command, by whatever path it is asked for. Only root can mount
// them, in the mount namespace of the tests.
func TestHangingFileSystems(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount them; its run of this test has an ordinary user in it")
	}
	for _, w := range worlds(t) {
		for kind, mount := range hanging {
			t.Run(w.name+"/"+kind, func(t *testing.T) {
				w.fresh(t)
				at := w.hidden + "/mount"
				require.NoError(t, os.Mkdir(at, 0o755))
				require.NoError(t, os.Symlink("mount/file", w.hidden+"/link"))
				require.NoError(t, os.Symlink(at, w.shared+"/link"))
				end := sync.OnceFunc(mount(t, at))
				defer end()
				// The control: a look at it does not end before the mount does.
				looks := w.command("stat", at+"/file")
				require.NoError(t, looks.Start())
				over := make(chan error, 1)
				go func() { over <- looks.Wait() }()
				for _, name := range []string{at + "/file", w.hidden + "/link", w.shared + "/link/file", at} {
					without, with := w.explained(t, "", built.hostile, "open", name), w.explained(t, "--explain=all", built.hostile, "open", name)
					assert.Equal(t, answers(t, without.out), answers(t, with.out))
					assert.NotZero(t, with.Receipt.Explain.NotLookedAt, name)
				}
				select {
				case err := <-over:
					t.Errorf("control: a look at it does not hang: %v", err)
				default:
				}
				end()
				assert.Error(t, testenv.Receive(t, over, "the look to be aborted"))
			})
		}
	}
}

// TestHangingInside: the command can see a file system that hangs. nsrun ends when the command has ended, and reports that a look has not.
func TestHangingInside(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount them; its run of this test has an ordinary user in it")
	}
	for _, w := range worlds(t)[1:] {
		t.Run(w.name, func(t *testing.T) {
			w.fresh(t)
			at := w.work + "/mount"
			require.NoError(t, os.Mkdir(at, 0o755))
			end := mountFUSE(t, at)
			defer end()
			got := w.explained(t, "--explain --timeout 1s", built.hostile, "open", at+"/file")
			assert.Equal(t, "timeout", string(got.Verdict))
			assert.NotZero(t, got.Receipt.Explain.NotLookedAt)
		})
	}
}
