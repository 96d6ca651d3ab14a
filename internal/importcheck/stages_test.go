package importcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStagesAreCalledByTheTable: the methods that write a stage of confinement are named in one place, the table of package stages. Nothing else
// calls one, so that there is one order of them: that of the tables in internal/verify.
func TestStagesAreCalledByTheTable(t *testing.T) {
	const table = "table_linux.go"
	paths, err := filepath.Glob(root + "/internal/stages/*_linux.go")
	require.NoError(t, err)
	files, set := map[string]*ast.File{}, token.NewFileSet()
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files[filepath.Base(name)], err = parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
	}
	stages := map[string]int{} // how often each is named
	methods(files[table], func(s *ast.SelectorExpr) { stages[s.Sel.Name]++ })
	for name, n := range stages {
		require.Equal(t, 1, n, "the table names %s once", name)
	}
	require.Greater(t, len(stages), 70, "the table is found")
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && isLowering(s.X) && stages[s.Sel.Name] > 0 {
				t.Errorf("%s: %s is a stage: give it a row for this process in internal/verify", set.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
		if file != files[table] {
			methods(file, func(s *ast.SelectorExpr) {
				t.Errorf("%s: %s is named outside of %s", set.Position(s.Pos()), s.Sel.Name, table)
			})
		}
	}
}

// methods calls found for each method expression (*Lowering).name.
func methods(file *ast.File, found func(*ast.SelectorExpr)) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.ParenExpr); ok {
				if star, ok := p.X.(*ast.StarExpr); ok && isName(star.X, "Lowering") {
					found(s)
				}
			}
		}
		return true
	})
}

// isLowering reports whether an expression is the receiver of Lowering's methods, which all call it l.
func isLowering(x ast.Expr) bool { return isName(x, "l") }

func isName(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
