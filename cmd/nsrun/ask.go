package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// askTimeout is how long a connection waits for the answer of --ask.
const askTimeout = 5 * time.Second

// askBy has the program of --ask asked about a run's network. end is called when the run has ended.
func (f *flags) askBy(pol policy.Policy) (o backend.NetworkOptions, end func(), err error) {
	end = func() {}
	if err := f.checkAsk(pol); err != nil || f.ask == "" {
		return o, end, err
	}
	program, err := exec.LookPath(f.ask)
	if in := (*exec.Error)(nil); errors.As(err, &in) {
		err = in.Err
	}
	if err == nil {
		program, err = filepath.Abs(program)
	}
	file := ""
	if err == nil {
		file, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return o, end, fmt.Errorf("--ask %s: %w; name a program of the host that answers", f.ask, err)
	}
	f.protected = append(f.protected, file) // it runs outside: a command that could change it would be out of the sandbox
	wait := f.askTimeout
	if wait == 0 {
		wait = askTimeout
	}
	o, end = runner.AskBy(program, file, wait, pol.AllowMost)
	return o, end, nil
}

// checkAsk refuses --ask where nothing is asked.
func (f *flags) checkAsk(pol policy.Policy) error {
	switch {
	case f.ask == "" && f.askTimeout != 0:
		return errors.New("--ask-timeout is about --ask, which is not given; add it, or leave this out")
	case f.ask != "" && pol.Network.Mode() != policy.NetworkAllow:
		return fmt.Errorf("--ask is about what the rules of --net allow do not name, and the network is %s; add --net allow:example.com:443, or \"network\": {\"allow\": []} to the manifest", pol.Network.Mode())
	}
	return nil
}
