package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoProcessOfBwrapsKeepsWhatTheCommandHasClosed: the reader of a descriptor that the command has inherited and closed sees its end at once, while
// the command goes on. nsrun and pid 1 have closed theirs.
func TestNoProcessOfBwrapsKeepsWhatTheCommandHasClosed(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := exec.Command(realBinary(t), "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "/bin/sh", "-c", "echo here >&3; exec 3>&-; echo closed; read go")
	cmd.Args[0] = "bwrap"
	cmd.ExtraFiles = []*os.File{w}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w.Close()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "closed\n", line)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	text, err := io.ReadAll(r)
	assert.NoError(t, err)
	assert.Equal(t, "here\n", string(text), "positive control: the command has it")
	stdin.Close()
	_ = cmd.Wait() // read fails at the end of its input
}
