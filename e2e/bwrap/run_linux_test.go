package bwrap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// person is a user as which cases run.
type person struct {
	name string
	uid  int
	room string // of this user
}

// stranger is the number of the ordinary user; no account has it.
const stranger = 54321

var people = sync.OnceValues(func() ([]person, error) {
	list := []person{{name: "user", uid: os.Getuid()}}
	if os.Getuid() == 0 {
		list = []person{{name: "root"}, {name: "user", uid: stranger}}
	}
	for i := range list {
		list[i].room = filepath.Join(built.room, list[i].name)
		if err := os.Mkdir(list[i].room, 0o755); err != nil {
			return nil, err
		}
		if err := os.Chown(list[i].room, list[i].uid, list[i].uid); err != nil {
			return nil, err
		}
	}
	return list, nil
})

func ownUser() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// report is what the supervisor says.
type report struct {
	Exit, Stdout, Stderr string
	Out                  map[int]string
	Host, Left           []string
	Spaces               map[string]string
	Problem              string
}

// runScene runs a case under one binary, in a new directory of always the same name.
func (p person) runScene(s scene, binary string) (outcome, error) {
	dir := filepath.Join(p.room, strings.ReplaceAll(s.name, "/", "-"))
	defer remove(dir)
	text, err := json.Marshal(s.fill(dir, binary))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*testenv.Limit(0))
	defer cancel()
	cmd := exec.CommandContext(ctx, built.finger, "supervise")
	cmd.Stdin = bytes.NewReader(text) // too long for a word
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin"}, "/"
	if p.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("supervisor: %w: %s", err, complaint.String())
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("supervisor: %w: %.200s", err, data)
	}
	if r.Problem != "" {
		return nil, fmt.Errorf("supervisor: %s", r.Problem)
	}
	o := outcomeOf(r, binary)
	if s.racy {
		o["stderr"] = slices.Compact(o["stderr"])
	}
	return o, nil
}

// truths holds what the version that is followed did: two tests ask for it.
var truths sync.Map

func (p person) truth(s scene) (outcome, error) {
	type answer struct {
		o   outcome
		err error
	}
	once, _ := truths.LoadOrStore(p.name+"/"+s.name, sync.OnceValue(func() answer {
		o, err := p.runScene(s, built.oracles[0].path)
		return answer{o, err}
	}))
	a := once.(func() answer)()
	return a.o, a.err
}

// eachScene calls f for every person and case.
func eachScene(t *testing.T, f func(t *testing.T, p person, s scene)) {
	need(t)
	list, err := people()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		mine := slices.DeleteFunc(scenes(), func(s scene) bool { return s.only != "" && s.only != p.name })
		testenv.Count(t, "bwrap scenes", len(mine))
		t.Run(p.name, func(t *testing.T) {
			for _, s := range mine {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					f(t, p, s)
				})
			}
		})
	}
}

// remove removes a tree in which a scene may have taken its owner's rights away.
func remove(dir string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
