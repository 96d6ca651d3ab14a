// Command act does one named act and prints one line of JSON that says what became of it:
//
//	{"act":"read","done":true,"found":"..."}
//	{"act":"read","done":false,"error":"open /x: permission denied"}
//
// "batch" does many, each in a process of its own, and prints a line for each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reply is what an act came to.
type reply struct {
	Act   string `json:"act"`
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
	Found any    `json:"found,omitempty"`
}

// act does something. No error means that it is done.
type act func(args []string) (found any, err error)

func main() {
	inherited := inheritedDescriptors()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "act: no act")
		os.Exit(2)
	}
	name, args := os.Args[1], os.Args[2:]
	switch name {
	case "batch":
		batch(args[0], inherited)
	case "descriptors":
		say(descriptors(inherited))
	default:
		say(one(name, args))
	}
}

func say(r reply) {
	line, err := json.Marshal(r)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"act":%q,"error":%q}`, r.Act, err))
	}
	fmt.Println(string(line))
}

func one(name string, args []string) reply {
	do, ok := acts()[name]
	if !ok {
		return reply{Act: name, Error: "bug: no such act"}
	}
	found, err := do(args)
	if err != nil {
		return reply{Act: name, Error: err.Error(), Found: found}
	}
	return reply{Act: name, Done: true, Found: found}
}

func acts() map[string]act {
	all := map[string]act{}
	for _, part := range []map[string]act{fileActs(), processActs(), socketActs(), kernelActs(), spaceActs(), hostActs()} {
		for name, do := range part {
			all[name] = do
		}
	}
	return all
}

// batch takes a JSON list of lists of words. In them {ppid} is the process that started this one.
func batch(list string, inherited []int) {
	var all [][]string
	if err := json.Unmarshal([]byte(list), &all); err != nil {
		say(reply{Act: "batch", Error: err.Error()})
		os.Exit(2)
	}
	for _, words := range all {
		if words[0] == "descriptors" {
			say(descriptors(inherited))
			continue
		}
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "{ppid}", strconv.Itoa(os.Getppid()))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit)
		cmd := exec.CommandContext(ctx, os.Args[0], words...)
		cmd.WaitDelay = time.Second
		line, err := cmd.Output()
		cancel()
		if err != nil {
			say(reply{Act: words[0], Error: fmt.Sprintf("bug: %v: %q", err, line)})
			continue
		}
		os.Stdout.Write(line)
	}
}

// inheritedDescriptors lists those beside the standard ones that have come through execve: what the runtime has opened since closes on it.
func inheritedDescriptors() (fds []int) {
	for fd := 3; fd < 256; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

func descriptors(inherited []int) reply {
	if len(inherited) == 0 {
		return reply{Act: "descriptors", Error: "there are none"}
	}
	return reply{Act: "descriptors", Done: true, Found: inherited}
}

// hostActs are those that prepare a caller.
func hostActs() map[string]act {
	return map[string]act{
		"launch": launch, "bystander": bystander, "take": take, "nothing": func([]string) (any, error) { return nil, nil },
		"arguments": func(args []string) (any, error) { return len(strings.Join(args, "")), nil },
	}
}

// launch gives the process a session keyring with a key in it, its user's keyring another one, and the process descriptor 7, and executes
// the rest of the words.
func launch(args []string) (any, error) {
	runtime.LockOSThread() // a session keyring is a thread's
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) {
		return nil, err
	}
	if _, err := unix.AddKey("user", args[0], []byte(args[0]), unix.KEY_SPEC_SESSION_KEYRING); err != nil && !errors.Is(err, unix.ENOSYS) {
		return nil, err
	}
	if id, err := unix.AddKey("user", args[0]+"-user", []byte(args[0]), unix.KEY_SPEC_USER_KEYRING); err == nil {
		_, _ = unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, id, 1800, 0, 0) // were nobody to remove it; a slow machine takes minutes for the whole contract
	}
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if fd != 7 {
		if err := unix.Dup3(fd, 7, 0); err != nil {
			return nil, err
		}
	}
	return nil, unix.Exec(args[1], args[1:], os.Environ())
}
