package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// agentVariable names the socket of an SSH agent.
const agentVariable = "SSH_AUTH_SOCK"

// socket shows a socket of the host's where it exists: an SSH agent's by a filter. A ceiling permits it as it does a grant.
func (a *adder) socket(kind Kind, source, dest string) {
	real, err := a.host.Real(source)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(real)
	}
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		err = errors.New("it is no socket")
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return
	case err != nil:
		a.note(fmt.Sprintf("%s is not shown: %v", source, err), "start the agent that it is of")
		return
	}
	// A link that a command can write leads wherever that command likes.
	for _, e := range a.asked.FS {
		if e.Kind != policy.Bind || !e.Write {
			continue
		}
		granted, err := a.host.Real(e.Source)
		if err != nil {
			granted = e.Source
		}
		if policy.Inside(source, e.Source) || policy.Inside(source, granted) || policy.Inside(real, granted) {
			a.note(source+" is not shown: it lies in "+e.Source+", which the command can write ("+e.Why+")", "start the agent with a socket elsewhere")
			return
		}
	}
	e := policy.FS{Kind: policy.Socket, Source: real, Dest: dest, Write: true, Optional: true, Found: true, Agent: kind == Agent}
	if err := e.Check(); err != nil {
		a.note(source+" is not shown: "+err.Error(), "start the agent with a socket elsewhere")
		return
	}
	a.add(e)
	if kind == Agent { // the host's value names nothing in the sandbox
		a.Env.Pass = slices.DeleteFunc(slices.Clone(a.Env.Pass), func(name string) bool { return name == agentVariable })
		a.Env.Set = append([]policy.Var{{Name: agentVariable, Value: dest}}, a.Env.Set...)
	}
}

// mostCopied is how large a file may be that the sandbox has as a copy.
const mostCopied = 1 << 20

// copy shows a file of the sandbox's own with what the host's has.
func (a *adder) copy(source, dest string) {
	real, err := a.host.Real(source)
	var data []byte
	if err == nil {
		data, err = readBounded(real, mostCopied)
	}
	if err != nil {
		a.note(fmt.Sprintf("%s is not copied: %v", source, err), "make it a file of at most 1 MiB that you can read")
		return
	}
	a.add(policy.FS{Kind: policy.File, Dest: dest, Data: data, Mode: 0o600, Optional: true, Quiet: true})
}

// public are files where keys are kept that hold none.
var public = []string{".ssh/known_hosts", ".gnupg/pubring.kbx", ".gnupg/trustdb.gpg"}

func isPublic(file, home string) bool {
	return slices.ContainsFunc(public, func(name string) bool { return file == path.Join(home, name) })
}
