package scope

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Timeout is how long a service manager should have, in all.
const Timeout = 5 * time.Second

// Enter moves this process into a new scope, whose groups can have the controllers, and returns its directory. It waits for patience at most,
// and asks stop every few milliseconds why not to wait any longer, which is its error then.
func Enter(s plan.Scope, controllers []string, timeout time.Duration, stop func() error) (dir string, err error) {
	c, err := dial(s.Socket, timeout, stop)
	if err != nil {
		return "", err
	}
	defer c.close()
	if s.Bus {
		if err := c.join(); err != nil {
			return "", err
		}
	}
	// Not "nsrun-...": an nsrun that makes groups beside it could take it for one that a dead run has left, before there is a process in it.
	unit := "run-nsrun-" + strconv.FormatUint(rand.Uint64(), 16) + ".scope"
	if err := c.start(unit, func(e *encoder) { properties(e, s) }); err != nil {
		return "", err
	}
	own, err := c.moved(unit)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(s.Tree, own)
	return dir, usable(dir, controllers)
}

// properties are those of the unit: systemd.scope(5), systemd.resource-control(5). The process 0 is whoever is at the other end of the
// connection: its own number may mean another process to the manager, if that is in another pid namespace.
func properties(e *encoder, s plan.Scope) {
	one := func(name, signature string, value func()) {
		e.align(8)
		e.str(name)
		e.sig(signature)
		value()
	}
	one("PIDs", "au", func() { e.array(4, func() { e.u32(0) }) })
	one("Description", "s", func() { e.str(s.Description) })
	one("Delegate", "b", func() { e.u32(map[bool]uint32{true: 1}[s.Delegate]) })
	one("CollectMode", "s", func() { e.str(s.CollectMode) })
}

// moved waits until this process is in the unit's cgroup, and returns where in the tree that is.
func (c *conn) moved(unit string) (own string, err error) {
	for {
		if own, err = ownGroup(); err != nil {
			return "", err
		}
		switch {
		case strings.Contains(own+"/", "/../"):
			return "", fmt.Errorf("the scope %s is out of sight here", own)
		case filepath.Base(own) == unit:
			return own, nil
		case c.stop() != nil:
			return "", c.stop()
		case time.Now().After(c.deadline):
			return "", fmt.Errorf("its job is done, and this process is in %s all the same", own)
		}
		time.Sleep(time.Millisecond)
	}
}

// ownGroup is where this process is in the tree of version 2: cgroups(7).
func ownGroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if own, ok := strings.CutPrefix(line, "0::"); ok {
			return own, nil
		}
	}
	return "", errors.New("/proc/self/cgroup names no cgroup of version 2")
}

// usable reports why groups with the controllers cannot be made in a directory.
func usable(dir string, controllers []string) error {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return slices.Contains(strings.Fields(string(has)), c) })
	if len(missing) > 0 {
		return fmt.Errorf("the scope %s has not got the controllers %s", dir, strings.Join(missing, " "))
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(dir, name), unix.W_OK); err != nil {
			return &os.PathError{Op: "write", Path: filepath.Join(dir, name), Err: err}
		}
	}
	return nil
}
