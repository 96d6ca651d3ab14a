package vm

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kernel is an image that boots, and the modules that the guests want of it.
type Kernel struct {
	Release string // as uname -r has it
	Package string // and version
	Sum     string // SHA-256 of the image
	Image   []byte
	modules map[string]module
}

type module struct {
	name string // of the file
	data []byte
	need []string
}

// wanted are the modules that the guests load, with all that those need, where they are not built in.
var wanted = []string{"overlay", "tun", "veth", "dummy", "bridge", "nf_tables", "nft_chain_nat", "nft_redir", "vsock_loopback", "fuse", "loop"}

// FetchKernel finds the newest kernel of a line in a suite, and reads it.
func FetchKernel(line, suite, arch string) (*Kernel, error) {
	a, err := OpenArchive(suite, arch)
	if err != nil {
		return nil, err
	}
	flavour := "cloud-" + arch
	version := regexp.QuoteMeta(line) + `[.~+-][^-]*(?:-\d+)?`
	// From 6.19 on linux-image is empty, and depends on two others. Where images are signed, the unsigned ones stand beside them.
	found, err := a.Names(`linux-(?:image|binary)-` + version + `-` + flavour)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("suite %s has no kernel %s for %s: give its row in e2e/vm/matrix.go another suite or line", suite, line, flavour)
	}
	name := slices.MaxFunc(found, func(a, b string) int { return compareVersions(kernelVersion(a), kernelVersion(b)) })
	names := []string{name}
	if rest, split := strings.CutPrefix(strings.Replace(name, "linux-image-", "linux-binary-", 1), "linux-binary-"); split && slices.Contains(found, "linux-binary-"+rest) {
		names = []string{"linux-binary-" + rest, "linux-modules-" + rest}
	}
	files, err := a.Fetch(false, names...)
	if err != nil {
		return nil, err
	}
	return readKernel(files)
}

// kernelVersion is what follows the kind of package.
func kernelVersion(name string) string {
	for _, prefix := range []string{"linux-image-", "linux-binary-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

// compareVersions compares runs of digits as numbers, and the rest as text.
func compareVersions(a, b string) int {
	parts := regexp.MustCompile(`\d+|\D+`)
	x, y := parts.FindAllString(a, -1), parts.FindAllString(b, -1)
	return slices.CompareFunc(x, y, func(p, q string) int {
		m, err1 := strconv.Atoi(p)
		n, err2 := strconv.Atoi(q)
		if err1 == nil && err2 == nil {
			return m - n
		}
		return strings.Compare(p, q)
	})
}

// readKernel reads the image, and of the modules those that are wanted.
func readKernel(files []string) (*Kernel, error) {
	k := &Kernel{Package: path.Base(files[0])}
	all := map[string]module{}
	for _, file := range files {
		err := readDeb(file, func(h *tar.Header, r io.Reader) error {
			if h.Typeflag != tar.TypeReg {
				return nil
			}
			base := path.Base(h.Name)
			isImage := strings.HasPrefix(base, "vmlinuz")
			key, _, isModule := strings.Cut(base, ".ko")
			if !isImage && !isModule {
				return nil
			}
			data, err := io.ReadAll(r)
			if isImage {
				k.Image, k.Release = data, release(h.Name)
			} else {
				all[strings.ReplaceAll(key, "-", "_")] = module{name: base, data: data}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if k.Image == nil {
		return nil, fmt.Errorf("%v: no vmlinuz", files)
	}
	k.Sum = fmt.Sprintf("%x", sha256.Sum256(k.Image))
	k.modules = map[string]module{}
	for _, name := range wanted {
		if err := k.keep(name, all); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// release is the kernel's in /boot/vmlinuz-RELEASE or /lib/modules/RELEASE/vmlinuz.
func release(name string) string {
	if base := path.Base(name); base != "vmlinuz" {
		return strings.TrimPrefix(base, "vmlinuz-")
	}
	return path.Base(path.Dir(name))
}

// keep adds a module and those that it needs. One that is not there is built in, or not made for this kernel.
func (k *Kernel) keep(name string, all map[string]module) error {
	m, found := all[name]
	if _, kept := k.modules[name]; kept || !found {
		return nil
	}
	data, err := m.plain()
	if err == nil {
		m.need, err = depends(data)
	}
	if err != nil {
		return fmt.Errorf("module %s: %w", m.name, err)
	}
	k.modules[name] = m
	for _, other := range m.need {
		if err := k.keep(other, all); err != nil {
			return err
		}
	}
	return nil
}

// plain is the module's ELF file.
func (m module) plain() ([]byte, error) {
	if strings.HasSuffix(m.name, ".ko") {
		return m.data, nil
	}
	cmd := exec.Command("xz", "-dc")
	cmd.Stdin = bytes.NewReader(m.data)
	data, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.New("xz is not installed (package xz-utils)")
	}
	return data, err
}

// depends reads what a module says that it needs: modules.dep is made where a package is installed.
func depends(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, field := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}

// moduleDir is where the modules lie in a guest.
const moduleDir = "/modules/"

// order lists the modules' files so that each follows what it needs.
func (k *Kernel) order() (files []string) {
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		m, found := k.modules[name]
		if !found || seen[name] {
			return
		}
		seen[name] = true
		for _, other := range m.need {
			visit(other)
		}
		files = append(files, moduleDir+m.name)
	}
	for _, name := range wanted {
		visit(name)
	}
	return files
}
