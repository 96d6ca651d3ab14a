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

	"github.com/nsrun/nsrun/nsrun/policy"
)

// namesLimits lists the files that may spell the name of a limit, and why. All other code reads the table, or a constant of it: a new limit is
// a new row.
var namesLimits = map[string]string{
	"policy/limit.go":         "the table",
	"rlimit/limit.go":         "the kernel's resources, of which some are called as limits are",
	"rlimit/lower_linux.go":   "the resource open_files, which Go has changed",
	"verify/command_linux.go": "the resource open_files, which is lowered last",
	"stages/limits_linux.go":  "likewise",
	"backend/group_linux.go":  "an error that names the limit",
	"backend/output_linux.go": "notes that name the limit",
}

// TestLimitsAreNamedInTheirTableAlone looks at string literals that are a name. Those of one word name controllers, too, and are left out.
func TestLimitsAreNamedInTheirTableAlone(t *testing.T) {
	used := map[string]bool{}
	look := func(path, text string) {
		if _, limit := policy.LookupLimit(text); !limit || !strings.Contains(text, "_") {
			return
		}
		used[path] = true
		if namesLimits[path] == "" {
			t.Errorf("%s names the limit %s; read policy.LimitTable", path, text)
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", ".git", "e2e", "nsbench", "scripts", "examples", "report"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)) // packages may move
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				look(name, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range namesLimits {
		if !used[path] {
			t.Errorf("%s names no limit any more: remove its row", path)
		}
	}
}
