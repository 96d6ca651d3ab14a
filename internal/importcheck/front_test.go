package importcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostNames is how many names the public package may export: types, functions, constants and variables, but no methods and fields.
const mostNames = 30

// exported lists the names that a file exports at its top level.
func exported(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	for i := len(names) - 1; i >= 0; i-- {
		if !ast.IsExported(names[i]) {
			names = append(names[:i], names[i+1:]...)
		}
	}
	return names
}

// TestTheFrontDoorIsSmall: the package nsrun exports few names, each of which an example mentions.
func TestTheFrontDoorIsSmall(t *testing.T) {
	files, err := filepath.Glob(root + "/nsrun/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of the package nsrun: %v", err)
	}
	var names []string
	shown := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "_test.go") {
			names = append(names, exported(file)...)
			continue
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := sel.X.(*ast.Ident); ok && x.Name == "nsrun" {
							shown[sel.Sel.Name] = true
						}
					}
					return true
				})
			}
		}
	}
	if len(names) > mostNames {
		t.Errorf("the package nsrun exports %d names, which may be %d: %s", len(names), mostNames, strings.Join(names, " "))
	}
	for _, name := range names {
		if !shown[name] {
			t.Errorf("no example of the package nsrun mentions %s", name)
		}
	}
	t.Logf("%d names", len(names))
}

// TestNothingBelowImportsTheFrontDoor: what may import the package nsrun are commands, and what reads policies from files.
func TestNothingBelowImportsTheFrontDoor(t *testing.T) {
	above := 0
	for dir, allowed := range imports {
		if !strings.Contains(" "+allowed+" ", " nsrun ") {
			continue
		}
		above++
		if dir != "nsrun/load" && !strings.HasPrefix(dir, "cmd/") {
			t.Errorf("%s may import nsrun, which is above it", dir)
		}
	}
	if above == 0 {
		t.Error("nothing imports nsrun: this test looks in the wrong place")
	}
}
