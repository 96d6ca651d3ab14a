// Package importcheck keeps packages apart: one test checks which package imports which.
package importcheck

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/nsrun/nsrun/"

// imports lists, for each package, the packages of this module that it may import. A package that is missing here fails the test:
// add a new package here before writing it, and give the reason in doc/adr.
var imports = map[string]string{
	"internal/fault":              "",
	"internal/sys":                "internal/sys/entry internal/fault",
	"internal/sys/entry":          "",
	"mounts":                      "internal/fault internal/sys",
	"landlock":                    "internal/sys",
	"seccomp":                     "internal/sys",
	"seccomp/generate":            "seccomp",
	"rlimit":                      "internal/sys internal/sys/entry",
	"rlimit/cgroup":               "internal/fault internal/sys",
	"nsrun/netrule":               "",
	"internal/netmessage":         "",
	"internal/netlink":            "",
	"internal/netlink/generate":   "",
	"nsrun/policy":                "nsrun/netrule",
	"nsrun/hostrun":               "",
	"internal/watch":              "nsrun/hostrun",
	"internal/denial":             "internal/sys landlock mounts seccomp nsrun/plan nsrun/policy nsrun/result",
	"nsrun/tools":                 "nsrun/policy nsrun/hostrun",
	"nsrun/facts":                 "",
	"nsrun/commands":              "nsrun/policy",
	"nsrun/plan":                  "mounts landlock seccomp rlimit rlimit/cgroup nsrun/netrule nsrun/policy nsrun/facts",
	"nsrun/manifest":              "nsrun/netrule nsrun/policy nsrun/commands",
	"nsrun/audit":                 "internal/fault mounts nsrun/policy",
	"nsrun/bwrap":                 "mounts nsrun/policy nsrun/plan nsrun/facts",
	"nsrun/bwrap/generate":        "",
	"internal/probe":              "internal/fault internal/netlink internal/sys mounts landlock seccomp rlimit nsrun/facts",
	"internal/backend":            "internal/fault internal/sys internal/sys/entry internal/stages internal/verify mounts landlock seccomp rlimit rlimit/cgroup nsrun/plan nsrun/facts nsrun/bwrap internal/scope internal/wire internal/denial internal/netmessage nsrun/result",
	"internal/stages":             "internal/fault internal/sys internal/sys/entry internal/netlink internal/netmessage internal/verify mounts landlock seccomp rlimit rlimit/cgroup nsrun/plan",
	"internal/verify":             "internal/sys internal/netlink mounts landlock seccomp rlimit nsrun/plan",
	"internal/wire":               "internal/sys",
	"internal/netparse":           "nsrun/netrule",
	"internal/nethost":            "internal/netmessage internal/netparse nsrun/netrule",
	"internal/nethelper":          "internal/nethost internal/netmessage internal/wire internal/sys landlock seccomp",
	"cmd/nsrun-helper":            "internal/nethelper",
	"nsrun/network":               "internal/nethelper internal/runner",
	"internal/scope":              "nsrun/plan",
	"internal/homes":              "nsrun/policy",
	"internal/agent":              "",
	"internal/scope/fake":         "",
	"internal/spawner":            "internal/fault internal/backend internal/wire nsrun/plan",
	"internal/importcheck":        "",
	"internal/importcheck/report": "",
	"nsrun/result":                "nsrun/plan",
	"internal/runner":             "nsrun/audit nsrun/policy nsrun/commands nsrun/facts nsrun/netrule nsrun/plan nsrun/result mounts internal/backend internal/stages internal/probe internal/wire internal/spawner internal/homes internal/agent internal/watch internal/netmessage",
	"nsrun":                       "nsrun/policy nsrun/tools nsrun/commands nsrun/plan nsrun/result internal/backend internal/runner",
	"nsrun/load":                  "nsrun nsrun/policy nsrun/plan nsrun/manifest nsrun/tools internal/runner",
	"cmd/nsrun/internal/session":  "internal/runner nsrun/result nsrun/policy nsrun/plan",
	"cmd/nsrun":                   "internal/fault internal/sys/entry internal/sys cmd/nsrun/internal/session internal/backend internal/homes internal/probe internal/runner mounts nsrun nsrun/audit nsrun/load nsrun/policy nsrun/tools nsrun/hostrun nsrun/commands nsrun/facts nsrun/plan nsrun/result nsrun/manifest nsrun/bwrap",
	"cmd/nsbench":                 "mounts nsrun nsrun/network",
	"e2e":                         "",
	"internal/doctest":            "",
	"internal/testenv":            "",
	"scripts/runtests":            "internal/testenv",
	"e2e/host":                    "internal/testenv",
	"e2e/explain":                 "",
	"e2e/network":                 "",
	"e2e/container":               "e2e/docker/daemon internal/testenv",
	"e2e/docker":                  "e2e/docker/daemon internal/testenv",
	"e2e/docker/daemon":           "",
	"e2e/vagrant":                 "",
	"e2e/programs":                "",
	"e2e/backend":                 "e2e/docker/daemon internal/testenv",
	"e2e/vm":                      "e2e/vm/guest",
	"e2e/vm/guest":                "",
	"e2e/vm/guest/init":           "e2e/vm/guest",
	"e2e/cmd/vm":                  "e2e/vm e2e/vm/guest",
}

// pure lists the packages that may not reach the system.
var pure = strings.Fields("nsrun/policy nsrun/hostrun nsrun/commands nsrun/netrule nsrun/facts nsrun/plan nsrun/result nsrun/manifest nsrun/bwrap")

// system lists what reaches it.
var system = strings.Fields("os os/exec os/signal os/user syscall net unsafe golang.org/x/sys/unix")

// unsafeTree is the one tree that may use unsafe and linkname.
const unsafeTree = "internal/sys"

func TestImports(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		seen++
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return check(t, path, dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Fatalf("only %d files found under %s: the test looks in the wrong place", seen, root)
	}
}

func check(t *testing.T, path, dir string) error {
	allowed, known := imports[dir]
	if !known {
		t.Errorf("%s: the package is not in the table imports", path)
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		if dep, ours := strings.CutPrefix(imp, module); ours && !slices.Contains(strings.Fields(allowed), dep) {
			t.Errorf("%s: %s may not import %s", path, dir, dep)
		}
		if slices.Contains(pure, dir) && slices.Contains(system, imp) {
			t.Errorf("%s: %s is pure and may not import %s", path, dir, imp)
		}
		if imp == "unsafe" && !(strings.HasPrefix(dir, unsafeTree) && strings.HasSuffix(path, "_unsafe_linux.go")) {
			t.Errorf("%s: unsafe belongs into %s, in files named *_unsafe_linux.go", path, unsafeTree)
		}
	}
	return nil
}
