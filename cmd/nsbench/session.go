package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/nsrun/nsrun/nsrun"
)

// policy shows the program that does nothing.
func (b *bench) policy() (nsrun.Policy, error) {
	return nsrun.NewPolicy().ReadOnly(filepath.Dir(b.nothing)).Build()
}

// fork is the fork and exec of the program that does nothing, and wait4(2).
func (b *bench) fork() *contender {
	return &contender{name: "fork+exec", argv: []string{b.nothing}, base: true}
}

// oneRun is a run of the program by each bubblewrap, with a view like a session's.
func (b *bench) oneRun() (all []*contender) {
	dir := filepath.Dir(b.nothing)
	for _, c := range contenders(b.layered([]string{dir}), b.nothing) {
		if c.base {
			all = append(all, c)
		}
	}
	return all
}

// warm is an exec in a session that is open.
func (b *bench) warm(s *nsrun.Session) *contender {
	return &contender{name: "exec in a warm session", measure: timed(func() error { return b.output(s) }), plotted: true}
}

// opening is the opening of a session, which is closed when it was measured.
func opening(name string, policy nsrun.Policy) *contender {
	var opened *nsrun.Session
	open := func() (err error) {
		opened, err = nsrun.Open(context.Background(), policy)
		return err
	}
	return &contender{name: name, measure: timed(open), settle: func() { closeSession(opened) }}
}

func (b *bench) output(s *nsrun.Session) error {
	_, err := s.Command(context.Background(), b.nothing).Output()
	return err
}

func (b *bench) sessions() error { return b.librarySessions("sessions") }

// heap measures sessions from a process with many pages.
func (b *bench) heap() error {
	heap := make([]byte, 1<<30)
	for i := 0; i < len(heap); i += os.Getpagesize() {
		heap[i] = 1
	}
	err := b.librarySessions("sessions, heap of 1 GB")
	runtime.KeepAlive(heap)
	return err
}

func (b *bench) librarySessions(title string) error {
	policy, err := b.policy()
	if err != nil {
		return err
	}
	warm, err := nsrun.Open(context.Background(), policy)
	if err != nil {
		return err
	}
	defer warm.Close()
	output := func() error { _, err := exec.Command(b.nothing).Output(); return err }
	openExecClose := func() error { return nsrun.CommandContext(context.Background(), policy, b.nothing).Run() }
	all := slices.Concat([]*contender{
		b.fork(),
		{name: "fork+exec by os/exec, with its output", measure: timed(output)},
		b.warm(warm),
		opening("open a session", policy),
		{name: "run: open, exec, close", measure: timed(openExecClose), plotted: true},
	}, b.oneRun())
	return b.hold(contest{title: title, rounds: b.rounds, contenders: all})
}

// closeSession closes a session, if there is one.
func closeSession(s *nsrun.Session) {
	if s != nil {
		s.Close()
	}
}

// The pool has poolSize sandboxes ready. After each Get the others wait for refillTime: what the pool builds meanwhile would disturb them.
const (
	poolSize   = 2
	refillTime = 25 * time.Millisecond
)

// pool measures Get and exec against an exec in a session that is open.
func (b *bench) pool() error {
	policy, err := b.policy()
	if err != nil {
		return err
	}
	warm, err := nsrun.Open(context.Background(), policy)
	if err != nil {
		return err
	}
	defer warm.Close()
	pool, err := nsrun.NewPool(policy, poolSize)
	if err != nil {
		return err
	}
	defer pool.Close()
	var got *nsrun.Session
	get := func() (err error) {
		got, err = pool.Get(context.Background())
		return err
	}
	getExec := func() error {
		if err := get(); err != nil {
			return err
		}
		return b.output(got)
	}
	settle := func() {
		closeSession(got)
		time.Sleep(refillTime)
	}
	base := b.warm(warm)
	base.base, base.plotted = true, false
	all := slices.Concat([]*contender{
		base,
		{name: "Get of a pool", measure: timed(get), settle: settle},
		{name: "Get of a pool, exec", measure: timed(getExec), settle: settle, plotted: true},
	}, b.oneRun())
	return b.hold(contest{title: "pool", rounds: b.rounds, contenders: all})
}

// client talks with one nsrun session.
type client struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startClient starts nsrun session, and opens a session that shows the program that does nothing.
func (b *bench) startClient() (*client, error) {
	c := &client{cmd: exec.Command(b.nsrun, "session")}
	c.cmd.Dir, c.cmd.Stderr = runDir, os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	err = c.ask(map[string]any{"id": 0, "op": "open", "policy": map[string]any{"extra_ro": []string{filepath.Dir(b.nothing)}}})
	if err != nil {
		c.close()
	}
	return c, err
}

// ask sends a request, and reads its answer.
func (c *client) ask(request map[string]any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(data, '\n')); err != nil {
		return err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("nsrun session answers nothing to %s: %w", data, err)
	}
	var answer struct {
		Error *struct{ Text string }
		OK    struct{ Verdict string }
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("nsrun session: %s", answer.Error.Text)
	}
	if v := answer.OK.Verdict; v != "" && v != "ok" {
		return fmt.Errorf("nsrun session: the command's verdict is %s", v)
	}
	return nil
}

func (c *client) exec(program string) error {
	return c.ask(map[string]any{"id": 1, "op": "exec", "args": []string{program}})
}

func (c *client) close() error {
	c.in.Close()
	return c.cmd.Wait()
}

// ndjson measures an exec by another program that uses nsrun session.
func (b *bench) ndjson() error {
	c, err := b.startClient()
	if err != nil {
		return err
	}
	defer c.close()
	all := slices.Concat([]*contender{
		b.fork(),
		{name: "exec in nsrun session", measure: timed(func() error { return c.exec(b.nothing) }), plotted: true},
	}, b.oneRun())
	if err := b.hold(contest{title: "exec over NDJSON", rounds: b.rounds, contenders: all}); err != nil {
		return err
	}
	spawned := floor()
	spawned.base = true
	return b.hold(contest{title: "exec of /bin/true over NDJSON", rounds: b.rounds, contenders: []*contender{
		spawned, {name: "exec in nsrun session", measure: timed(func() error { return c.exec("/bin/true") })}}})
}
