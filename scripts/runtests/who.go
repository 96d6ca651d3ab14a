package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ordinary is the account that root's runs test as. They make it if it is missing, and remove it then.
const ordinary = "nsrun-test"

// who is a user as whom tests run.
type who struct {
	name string
	tree string // a copy of the source tree, or the tree itself, that the user owns
	home string
	uid  int
	drop []string // words that make a command the user's
	env  []string // the whole environment, or nil for this process's
}

// testUsers returns the users that this process can test as, the current user first, and a function that removes what it made for them.
func testUsers(ctx context.Context, root string, both bool) (users []who, undo func(), err error) {
	me, err := user.Current()
	if err != nil {
		return nil, nil, err
	}
	users = []who{{name: me.Username, tree: root, home: os.Getenv("HOME")}}
	if os.Getuid() != 0 || !both {
		return users, func() {}, nil
	}
	made := false
	if _, err := user.Lookup(ordinary); err != nil {
		if out, err := exec.CommandContext(ctx, "useradd", "--create-home", "--shell", "/bin/sh", ordinary).CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("useradd %s: %w: %s", ordinary, err, out)
		}
		made = true
	}
	dir, err := os.MkdirTemp("/var/tmp", "nsrun-tree-")
	undo = func() {
		if made {
			removeAccount()
		}
		_ = os.RemoveAll(dir)
	}
	if err == nil {
		err = copyTree(ctx, root, dir)
	}
	if err == nil {
		err = exec.CommandContext(ctx, "chown", "-R", ordinary+":", dir).Run()
	}
	u, lookup := user.Lookup(ordinary)
	if err = errors.Join(err, lookup); err != nil {
		undo()
		return nil, nil, fmt.Errorf("a tree for %s: %w", ordinary, err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	users = append(users, who{name: ordinary, tree: dir, home: u.HomeDir, uid: uid,
		drop: []string{"setpriv", "--reuid", ordinary, "--regid", ordinary, "--init-groups"},
		env:  []string{"HOME=" + u.HomeDir, "USER=" + ordinary, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "CI=" + os.Getenv("CI")}})
	return users, undo, nil
}

// removeAccount ends what the ordinary user still runs, which an interrupt can leave, and removes the account.
func removeAccount() {
	u, err := user.Lookup(ordinary)
	if err != nil {
		return
	}
	for range 100 {
		left := false
		for p := range processes() {
			pid, _ := strconv.Atoi(p.pid)
			if strconv.Itoa(owner("/proc/"+p.pid)) == u.Uid {
				left = syscall.Kill(pid, syscall.SIGKILL) == nil || left
			}
		}
		if !left {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if out, err := exec.Command("userdel", "--remove", ordinary).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "test.sh: the account %s stays: userdel: %v: %s\n", ordinary, err, out)
	}
}

// copyTree copies what git knows or would know of a source tree.
func copyTree(ctx context.Context, root, to string) error {
	names, err := treeFiles(ctx, root)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "--create", "--null", "--no-recursion", "--files-from=-")
	cmd.Dir, cmd.Stdin = root, strings.NewReader(strings.Join(names, "\x00"))
	unpack := exec.CommandContext(ctx, "tar", "--extract", "--directory="+to)
	if unpack.Stdin, err = cmd.StdoutPipe(); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(to, 0o755), unpack.Start(), cmd.Run()); err != nil {
		return err
	}
	return unpack.Wait()
}

// treeFiles lists the files of a source tree: those that git has and those that it would add.
func treeFiles(ctx context.Context, root string) (names []string, err error) {
	cmd := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files, for the list of the tree's files: %w: %s", err, stderr.String())
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && !info.IsDir() { // git lists removed files, and repositories within
			names = append(names, name)
		}
	}
	return names, nil
}
