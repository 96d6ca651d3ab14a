package mounts

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLookMapped looks below a directory of the caller's own, and of another's, that the caller may not search.
func TestLookMapped(t *testing.T) {
	others := closedDirectory(t)
	dir := fixture(t)
	require.NoError(t, os.Symlink("../bound/f", dir+"/bound/sub/l"))
	t.Cleanup(obeyModes(t))
	require.NoError(t, os.Chmod(dir+"/bound", 0))
	t.Cleanup(func() { assert.NoError(t, os.Chmod(dir+"/bound", 0o755)) })

	plain, mapped := &Host{}, &Host{Mapped: true}
	before := openFiles(t)
	for name, want := range map[string]error{
		"/bound": nil, "/bound/f": unix.EACCES, "/bound/sub/../f": unix.EACCES, "/bound/sub/l": unix.EACCES, "/bound/none": unix.EACCES, "/bound/f/x": unix.EACCES,
	} {
		_, err := plain.Stat(dir + name)
		assert.ErrorIs(t, err, want, "%s, as the caller", name)
	}
	for name, want := range map[string]string{"/bound/f": "/bound/f", "/bound/sub/../f": "/bound/f", "/bound/sub": "/bound/sub", "/bound": "/bound", "/rw/h": "/rw/h"} {
		stat, err := mapped.Stat(dir + name)
		assert.NoError(t, err, name)
		assert.Equal(t, dir+want, stat.Path, name)
	}
	stat, err := mapped.Stat(dir + "/bound/sub/l")
	assert.NoError(t, err)
	assert.Equal(t, "../bound/f", stat.Target, "a symlink is not followed")
	_, err = mapped.Stat(dir + "/bound/none")
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = mapped.Stat(dir + "/bound/f/x")
	assert.ErrorIs(t, err, unix.ENOTDIR)
	_, err = mapped.Stat(others + "/x")
	assert.ErrorIs(t, err, unix.EACCES, "the namespace does not map its owner")
	plain.Close()
	mapped.Close()
	assert.Equal(t, before, openFiles(t))
}

// TestLookMappedKilled: a child that dies half-way has found nothing, although the descriptor that it should have replaced is open.
func TestLookMappedKilled(t *testing.T) {
	dir := fixture(t)
	done := make(chan error)
	go func() { // whose thread ends with it
		obeyModes(t)
		_ = os.Chmod(dir+"/bound", 0)
		host := &Host{Mapped: true}
		if _, err := host.Stat(dir + "/bound/f"); err != nil {
			done <- fmt.Errorf("positive control: %w", err)
			return
		}
		killOn(t, unix.SYS_DUP3)
		_, err := host.Stat(dir + "/bound/f")
		done <- err
	}()
	err := <-done
	assert.NoError(t, os.Chmod(dir+"/bound", 0o755))
	assert.ErrorIs(t, err, unix.EACCES)
}

// killOn has a filter kill whichever process of this thread's makes the system call nr.
func killOn(t *testing.T, nr uint32) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	assert.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	assert.NoError(t, unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0))
}

// obeyModes takes from this thread, of root, the capabilities that let it pass over the modes of files, until restore is called.
func obeyModes(t *testing.T) (restore func()) {
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	assert.NoError(t, unix.Capget(&header, &data[0]))
	was := data
	data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	assert.NoError(t, unix.Capset(&header, &data[0]))
	return func() {
		assert.NoError(t, unix.Capset(&header, &was[0]))
		runtime.UnlockOSThread()
	}
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	assert.NoError(t, err)
	return len(entries)
}
