package clients_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// person is a user as which clients run.
type person struct {
	name string
	uid  int
}

// stranger is the number of the ordinary user; no account has it.
const stranger = 54322

func people() []person {
	if os.Getuid() != 0 {
		return []person{{"user", os.Getuid()}}
	}
	return []person{{"root", 0}, {"user", stranger}}
}

// job is one run of a client: a person, an engine and a directory.
type job struct {
	person
	engine engine
	dir    string // belongs to the person, and is the working directory
	tmp    string // its TMPDIR; elsewhere, since the names of sockets in it may not be long
	extra  string // words that the shim puts before the client's
}

// facts is what came of a job, by name.
type facts map[string]string

// newJob makes the directory, which the caller removes with close.
func newJob(p person, e engine, name, extra string) (*job, error) {
	j := &job{person: p, engine: e, extra: extra}
	j.dir = filepath.Join(built.room, p.name+"-"+e.name+"-"+name)
	var err error
	if j.tmp, err = os.MkdirTemp("/tmp", "nsrun-c"); err != nil {
		return nil, err
	}
	for _, dir := range []string{"", "home", "run", "shim"} {
		if err := os.Mkdir(j.path(dir), 0o755); err != nil {
			return nil, err
		}
	}
	shim := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$*\" >>'%s'\nexec '%s' %s \"$@\"\n", j.path("calls"), e.path, extra)
	if err := os.WriteFile(j.path("shim/bwrap"), []byte(shim), 0o755); err != nil {
		return nil, err
	}
	return j, j.own()
}

// own gives everything in the directory to the person.
func (j *job) own() error {
	if j.uid == os.Getuid() {
		return nil
	}
	for _, dir := range []string{j.dir, j.tmp} {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, j.uid, j.uid)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *job) path(name string) string { return filepath.Join(j.dir, name) }

func (j *job) close() error { return errors.Join(os.RemoveAll(j.dir), os.RemoveAll(j.tmp)) }

// lay writes files by their names in the directory; {DIR} in a text is the directory, and "-> TARGET" makes a link.
func (j *job) lay(files map[string]string) error {
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(j.path(name)), 0o755); err != nil {
			return err
		}
		if target, link := strings.CutPrefix(text, "-> "); link {
			if err := os.Symlink(target, j.path(name)); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(j.path(name), []byte(j.fill(text)), 0o644); err != nil {
			return err
		}
	}
	return j.own()
}

// read returns the text of a file, or that there is none.
func (j *job) read(name string) string {
	data, err := os.ReadFile(j.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (j *job) fill(text string) string {
	return strings.NewReplacer("{DIR}", j.dir, "{ROOM}", built.room, "{FETCHED}", built.fetched).Replace(text)
}

// blank undoes fill, for what is compared with facts.
func (j *job) blank(text string) string { return strings.ReplaceAll(text, j.dir, "{DIR}") }

// result is what a command came to.
type result struct {
	exit           int
	stdout, stderr string
}

// run runs words, in which {DIR} is filled, with input.
func (j *job) run(input string, words ...string) (result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Limit(0))
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := j.command(ctx, words...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaint
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return result{}, fmt.Errorf("%q: %w\n%s", words, errors.Join(err, ctx.Err()), complaint.String())
	}
	return result{cmd.ProcessState.ExitCode(), j.blank(out.String()), j.blank(complaint.String())}, nil
}

// command is not yet started; when the context ends it is killed with its process group. Its words are looked up on a PATH where the
// system's programs come before others of their names, which may lack the modules of the packages.
func (j *job) command(ctx context.Context, words ...string) *exec.Cmd {
	filled := make([]string, len(words))
	for i, w := range words {
		filled[i] = j.fill(w)
	}
	cmd := exec.CommandContext(ctx, "/usr/bin/env", filled...)
	cmd.Dir = j.dir
	cmd.Env = []string{"HOME=" + j.path("home"), "USER=nobody", "LANG=C.UTF-8", "TMPDIR=" + j.tmp, "XDG_RUNTIME_DIR=" + j.path("run"),
		"PATH=" + j.path("shim") + ":/usr/bin:/bin:" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if j.uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(j.uid), Gid: uint32(j.uid)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// calls returns the command lines of bwrap that the shim saw.
func (j *job) calls() []string {
	data, err := os.ReadFile(j.path("calls"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// left returns the processes that name the directory and do not end within a while.
func (j *job) left() []string {
	var found []string
	for deadline := time.Now().Add(testenv.Limit(0)); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		found = nil
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range lines {
			if line, err := os.ReadFile(file); err == nil && (bytes.Contains(line, []byte(j.dir+"/")) || bytes.Contains(line, []byte(j.tmp+"/"))) {
				found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		if found == nil {
			return nil
		}
	}
	return found
}
