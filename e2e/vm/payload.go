package vm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nsrun/nsrun/e2e/vm/guest"
)

// Where the guests have this module, and what was built of it.
const (
	ModuleDir = "/nsrun"
	BuiltDir  = "/nsrun-built"
)

// Payload adds to a root what runs in the guest: /init, the module's files, the programs of some of its packages and the tests of others.
// A package's tests are the file run.test in its directory.
func (t Tree) Payload(module, arch string, programs, tests []string) error {
	out, err := os.MkdirTemp("", "nsrun-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	if len(tests) > 0 {
		if err := t.AddTree(ModuleDir, module); err != nil {
			return err
		}
	}
	add := func(to, verb, pkg string, flags ...string) error {
		file := filepath.Join(out, "built")
		args := append([]string{verb, "-trimpath", "-ldflags=-s -w", "-o", file}, flags...)
		if err := goTool(module, arch, append(args, "./"+pkg)...); err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		t.File(to, 0o755, data)
		return err
	}
	if err := add("/init", "build", "e2e/vm/guest/init"); err != nil {
		return err
	}
	for _, pkg := range programs {
		if err := add(filepath.Join(BuiltDir, pkg), "build", pkg); err != nil {
			return err
		}
	}
	for _, pkg := range tests {
		if err := add(filepath.Join(ModuleDir, pkg, "run.test"), "test", pkg, "-c"); err != nil {
			return err
		}
	}
	return nil
}

func goTool(dir, arch string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, text)
	}
	return nil
}

// Prepare writes a machine's kernel and initramfs into a directory: root with what every guest has, the kernel's modules, and the plan.
func Prepare(dir string, k *Kernel, root Tree, plan guest.Plan) (kernel, initramfs string, err error) {
	kernel, initramfs = filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initramfs")
	if err := os.WriteFile(kernel, k.Image, 0o644); err != nil {
		return "", "", err
	}
	all := BareRoot()
	all.Add(root)
	for _, m := range k.modules {
		all.File(moduleDir+m.name, 0o644, m.data)
	}
	plan.Modules = k.order()
	data, err := json.MarshalIndent(plan, "", "\t")
	if err != nil {
		return "", "", err
	}
	all.File(guest.PlanFile, 0o644, data)
	f, err := os.Create(initramfs)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if _, err := all.WriteTo(w); err != nil {
		return "", "", err
	}
	return kernel, initramfs, w.Flush()
}
