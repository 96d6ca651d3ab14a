package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// unmount takes away the mounts below the directory, the last one first.
func (d *Daemon) unmount() error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], d.Dir+"/") {
			points = append(points, fields[4])
		}
	}
	slices.Reverse(points)
	var errs []error
	for _, p := range points {
		errs = append(errs, syscall.Unmount(p, syscall.MNT_DETACH))
	}
	return errors.Join(errs...)
}

// elsewhere are places that dockerd and containerd make whatever they are told.
var elsewhere = []string{"/opt/containerd/bin", "/opt/containerd/lib", "/opt/containerd", "/run/containerd/s", "/run/containerd", "/run/docker/plugins", "/run/docker"}

// present lists such places as they are now, and the control groups that Docker makes with either driver.
func present() []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/docker", "/sys/fs/cgroup/*/docker"} {
		groups, _ := filepath.Glob(pattern)
		found = append(found, groups...)
	}
	for _, p := range elsewhere {
		if _, err := os.Lstat(p); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// removeMade removes those that were not there before, as far as they are empty: directories alone, never files.
func (d *Daemon) removeMade() error {
	var errs []error
	for _, p := range present() {
		if slices.Contains(d.before, p) {
			continue
		}
		var dirs []string
		err := filepath.WalkDir(p, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		errs = append(errs, err)
		slices.Reverse(dirs)
		for _, dir := range dirs {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
			}
		}
	}
	return errors.Join(errs...)
}
