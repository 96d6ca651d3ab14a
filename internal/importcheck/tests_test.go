package importcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

const root = "../.."

// testFiles parses every test file of the module, by its package's directory.
func testFiles(t *testing.T) map[string][]*ast.File {
	t.Helper()
	files := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		files[dir] = append(files[dir], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tests lists the names of a package's tests.
func tests(files []*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// TestWhatLeavesTheFastTierIsGuarded checks each row of testenv.SlowTests: what it names exists, and so does its guard, which is fast.
func TestWhatLeavesTheFastTierIsGuarded(t *testing.T) {
	files := testFiles(t)
	slow := func(dir, test string) bool {
		return slices.ContainsFunc(testenv.SlowTests, func(r testenv.SlowRow) bool {
			return r.Package == dir && r.Part == "" && (r.Test == "" || r.Test == test)
		})
	}
	for _, row := range testenv.SlowTests {
		if files[row.Package] == nil || row.Test != "" && !slices.Contains(tests(files[row.Package]), row.Test) {
			t.Errorf("internal/testenv/slow.go: there is no test %s in %s", row.Test, row.Package)
		}
		dir, test, _ := strings.Cut(row.Guard, " ")
		if !slices.Contains(tests(files[dir]), test) || slow(dir, test) {
			t.Errorf("internal/testenv/slow.go: %s %s is guarded by %q, which is no test of the fast tier", row.Package, row.Test, row.Guard)
		}
		if row.Promise == "" {
			t.Errorf("internal/testenv/slow.go: %s %s names no promise", row.Package, row.Test)
		}
	}
}

// harmless are packages whose tests start processes that touch nothing of the machine: go, qemu, /bin/sh as a stand-in, or which test
// testenv.Main itself.
var harmless = []string{"cmd/nsrun/internal/session", "e2e/vm", "internal/testenv", "scripts/runtests"}

// TestTestsOfTheSystemAreIsolated: a package whose tests reach the system runs them by testenv.Main, in namespaces of their own.
func TestTestsOfTheSystemAreIsolated(t *testing.T) {
	seen := 0
	for dir, files := range testFiles(t) {
		reaches, isolates := "", false
		for _, f := range files {
			for _, spec := range f.Imports {
				imp, _ := strconv.Unquote(spec.Path.Value)
				if slices.Contains([]string{"os/exec", "syscall", "golang.org/x/sys/unix"}, imp) {
					reaches = imp
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Main" {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "testenv" {
						isolates = true
					}
				}
				return true
			})
		}
		if isolates {
			seen++
		}
		if reaches != "" && !isolates && !slices.Contains(harmless, dir) {
			t.Errorf("%s: its tests import %s, so it needs func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }", dir, reaches)
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages run their tests by testenv.Main: this test looks in the wrong place", seen)
	}
}
