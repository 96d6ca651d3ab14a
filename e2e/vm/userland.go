package vm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// release of Debian that the guests' programs are of.
const userlandSuite = "bookworm"

// debianPackages are what the tests start, and what that needs.
var debianPackages = []string{"bash", "dash", "coreutils", "util-linux", "mount", "procps", "grep", "sed", "findutils", "hostname", "base-files", "mawk",
	"bubblewrap", "uidmap", "perl-base", "libc-bin", "diffutils", "tar", "gzip"}

// DebianRoot is a root as Debian has it, with bubblewrap.
func DebianRoot(arch string) (Tree, error) {
	a, err := OpenArchive(userlandSuite, arch)
	if err != nil {
		return nil, err
	}
	files, err := a.Fetch(true, debianPackages...)
	if err != nil {
		return nil, err
	}
	t := Tree{}
	for _, file := range files {
		if err := t.unpack(file); err != nil {
			return nil, err
		}
	}
	for _, dir := range top {
		if _, found := t["/usr"+dir]; found {
			t.Link(dir, strings.TrimPrefix("/usr"+dir, "/"))
		}
	}
	for name, target := range map[string]string{"/usr/bin/sh": "dash", "/usr/bin/awk": "mawk", "/etc/mtab": "../proc/self/mounts"} {
		t.Link(name, target) // what packages' scripts make
	}
	t.Add(accounts())
	return t, nil
}

// BusyboxRoot is the smallest root with a shell: no C library, no /lib64, no /etc but the two files of accounts.
func BusyboxRoot(arch string) (Tree, error) {
	data, err := fileOf(arch, "busybox-static", "/usr/bin/busybox")
	if err != nil {
		return nil, err
	}
	t := accounts()
	t.File("/bin/busybox", 0o755, data)
	for _, name := range busyboxNames {
		t.Link("/bin/"+name, "busybox")
	}
	return t, nil
}

// busyboxNames are those of busybox's programs that tests or people use.
var busyboxNames = strings.Fields("sh ash ls cat echo true false id sleep mount umount ps ip mkdir rmdir rm cp mv ln env stat dd touch head tail wc " +
	"hostname uname nc kill test [ chmod chown grep sed awk sort tr cut seq setsid find readlink tee printf expr dirname basename mkfifo timeout vi less dmesg")

// MuslRoot is a root whose programs are linked with musl: busybox of that kind, and its loader.
func MuslRoot(arch string) (Tree, error) {
	t, err := BusyboxRoot(arch)
	if err != nil {
		return nil, err
	}
	loader := map[string]string{"amd64": "ld-musl-x86_64.so.1", "arm64": "ld-musl-aarch64.so.1"}[arch]
	libc := map[string]string{"amd64": "/usr/lib/x86_64-linux-musl/libc.so", "arm64": "/usr/lib/aarch64-linux-musl/libc.so"}[arch]
	data, err := fileOf(arch, "musl", libc)
	if err != nil {
		return nil, err
	}
	t.File("/lib/"+loader, 0o755, data)
	t.Link("/usr/bin/ldd", "/lib/"+loader)
	return t, nil
}

// fileOf is one file of a package's.
func fileOf(arch, pkg, name string) ([]byte, error) {
	a, err := OpenArchive(userlandSuite, arch)
	if err != nil {
		return nil, err
	}
	files, err := a.Fetch(false, pkg)
	if err != nil {
		return nil, err
	}
	t := Tree{}
	if err := t.unpack(files[0]); err != nil {
		return nil, err
	}
	e, found := t[name]
	if !found {
		return nil, fmt.Errorf("%s has no %s", files[0], name)
	}
	return e.Data, nil
}

// accounts are the users of a guest, and nothing else of /etc.
func accounts() Tree {
	t := Tree{}
	t.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\ntester:x:1000:1000::/home/tester:/bin/sh\n"))
	t.File("/etc/group", 0o644, []byte("root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\ntester:x:1000:\n"))
	t.File("/etc/hostname", 0o644, []byte("nsrun-vm\n"))
	t.File("/etc/subuid", 0o644, []byte("tester:100000:65536\n"))
	t.File("/etc/subgid", 0o644, []byte("tester:100000:65536\n"))
	t.File("/etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	return t
}

// BareRoot has the directories that mounts go on, and nothing to start.
func BareRoot() Tree {
	t := Tree{}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/home"} {
		t.Dir(dir, 0o755)
	}
	t["/dev/console"] = Entry{Mode: 0o600 | fs.ModeDevice | fs.ModeCharDevice, Major: 5, Minor: 1}
	t.Dir("/root", 0o700)
	t.Dir("/tmp", 0o777|fs.ModeSticky)
	return t
}

// AddTree adds the files below a directory of this machine's.
func (t Tree) AddTree(at, dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		to := filepath.Join(at, rel)
		switch {
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			t.Dir(to, 0o755)
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			t.File(to, info.Mode().Perm()|0o444, data)
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			t.Link(to, target)
			return err
		}
		return nil
	})
}
