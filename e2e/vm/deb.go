package vm

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
)

// readDeb hands each member of a Debian package's data to take, which reads what it wants.
func readDeb(file string, take func(h *tar.Header, r io.Reader) error) (err error) {
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", file)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	defer func() {
		_, _ = io.Copy(io.Discard, out) // or dpkg-deb would end by a signal
		if waited := cmd.Wait(); waited != nil {
			err = errors.Join(err, fmt.Errorf("dpkg-deb --fsys-tarfile %s: %w", file, waited))
		}
	}()
	for archive := tar.NewReader(out); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = take(h, archive)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

// unpack adds a package's files to a tree, where /bin, /sbin and /lib are links into /usr, whatever the package says. Its scripts are not run.
func (t Tree) unpack(file string) error {
	hard := map[string]string{}
	err := readDeb(file, func(h *tar.Header, r io.Reader) error {
		name := merged(clean(h.Name))
		if name == "/" || unwanted(name) {
			return nil
		}
		mode := h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		switch h.Typeflag {
		case tar.TypeDir:
			t.Dir(name, mode)
		case tar.TypeSymlink:
			t.Link(name, h.Linkname)
		case tar.TypeLink:
			hard[name] = merged(clean(h.Linkname))
		case tar.TypeReg:
			data, err := io.ReadAll(r)
			t.File(name, mode, data)
			return err
		}
		return nil
	})
	for name, target := range hard {
		t[name] = t[target]
	}
	return err
}

// top are the directories that are links into /usr.
var top = [...]string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

func merged(name string) string {
	for _, dir := range top {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return "/usr" + name
		}
	}
	return name
}

// unwanted are files that no test looks at.
func unwanted(name string) bool {
	for _, dir := range []string{"/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/lintian", "/usr/share/bash-completion"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}
