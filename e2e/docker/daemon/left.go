package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// elsewhere are places that dockerd and containerd make whatever they are told.
var elsewhere = []string{"/opt/containerd/bin", "/opt/containerd/lib", "/opt/containerd", "/run/containerd/s", "/run/containerd", "/run/docker/plugins", "/run/docker"}

// present lists such places as they are now.
func present() (found []string) {
	for _, p := range elsewhere {
		if _, err := os.Lstat(p); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// removeMade removes the daemon's control groups, and those of elsewhere that were not there before and that no other daemon uses. It
// removes directories alone, and only empty ones.
func (d *Daemon) removeMade() error {
	var errs []error
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // of both versions
		groups, _ := filepath.Glob(pattern + d.groups)
		for _, group := range groups {
			errs = append(errs, removeTree(group))
		}
	}
	for _, p := range present() {
		if !slices.Contains(d.before, p) {
			_ = syscall.Rmdir(p)
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a tree of groups. One whose last process has just been killed can be busy for a moment, and another one can go by itself.
func removeTree(root string) error {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := removeOnce(root)
		if _, statErr := os.Lstat(root); errors.Is(statErr, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(until) {
			return err
		}
	}
}

func removeOnce(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if rmErr := syscall.Rmdir(dir); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, &fs.PathError{Op: "rmdir", Path: dir, Err: rmErr})
		}
	}
	return err
}
