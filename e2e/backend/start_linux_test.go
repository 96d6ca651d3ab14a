package backend_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/require"
)

// output is a buffer that is read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// started is a run of nsrun that goes on.
type started struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

// start starts one; when the test ends, so does it.
func (b box) start(t *testing.T, flags []string, command ...string) *started {
	t.Helper()
	words := b.words(flags, command...)
	s := &started{cmd: b.command(context.Background(), words...), out: &output{}, done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	b.change(nil)(s.cmd)
	require.NoError(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	return s
}

// wait waits for a text in the output.
func (s *started) wait(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, func() bool { return strings.Contains(s.out.String(), text) }, fmt.Sprintf("%q in the output of %q", text, s.cmd.Args))
}

// end waits for the run's own end, and gives its code.
func (s *started) end(t *testing.T) int {
	t.Helper()
	testenv.Receive(t, s.done, fmt.Sprintf("the end of %q", s.cmd.Args))
	return codeOf(s.cmd.ProcessState)
}
