// Command report prints how large the project is and how many of each thing it has: the figures that its budgets are about.
//
//	go run ./internal/importcheck/report          # sizes and counts, by reading the source
//	go run ./internal/importcheck/report -walks   # and how many functions handle one hint and one limit, by running nsrun plan
//
// Run it in the repository's root. Counted is hand-written Go that ships: no tests and what only they need, no generated files.
//
// It does not protect against anything.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// leftOut are the directories of what does not ship: tests, and the tools that measure and check.
var leftOut = []string{".git", "e2e", "examples", "internal/testenv", "internal/doctest", "internal/importcheck", "internal/scope/fake", "scripts", "cmd/nsbench",
	"seccomp/generate", "nsrun/bwrap/generate"}

// auditors is what has to be read to judge one strict run, beside the claims in doc/security.md.
var auditors = []string{"internal/verify", "internal/sys/fork_unsafe_linux.go"}

// source is one file that counts.
type source struct {
	path            string
	lines, comments int
	file            *ast.File
}

func main() {
	withWalks := flag.Bool("walks", false, "run nsrun plan to count the functions that handle one hint and one limit")
	flag.Parse()
	set := token.NewFileSet()
	sources, err := read(set)
	if err == nil {
		print(set, sources)
		if *withWalks {
			err = walks()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// read parses all files that count.
func read(set *token.FileSet) (all []source, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(leftOut, path) || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil || bytes.Contains(data, []byte("DO NOT EDIT")) {
			return err
		}
		file, err := parser.ParseFile(set, path, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := source{path: path, lines: bytes.Count(data, []byte("\n")), file: file}
		for _, group := range file.Comments {
			s.comments += set.Position(group.End()).Line - set.Position(group.Pos()).Line + 1
		}
		all = append(all, s)
		return nil
	})
	return all, err
}

// print prints sizes by package, and the counts.
func print(set *token.FileSet, sources []source) {
	lines, comments := map[string]int{}, map[string]int{}
	var sum, types, tables int
	var errors []string
	var lengths []int
	longest := ""
	for _, s := range sources {
		dir := filepath.Dir(s.path)
		lines[dir] += s.lines
		comments[dir] += s.comments
		sum += s.lines
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				types++
			case *ast.ValueSpec:
				tables += stageTables(n)
			case *ast.FuncDecl:
				length := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
				if lengths = append(lengths, length); length == slices.Max(lengths) {
					longest = s.path + " " + n.Name.Name
				}
				if n.Name.Name == "Error" && n.Recv != nil && n.Type.Results.NumFields() == 1 && n.Type.Params.NumFields() == 0 {
					errors = append(errors, dir+"."+receiver(n))
				}
			}
			return true
		})
	}
	fmt.Println("lines  comments  package")
	for _, dir := range slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return lines[b] - lines[a] }) {
		fmt.Printf("%5d  %7d%%  %s\n", lines[dir], 100*comments[dir]/lines[dir], dir)
	}
	slices.Sort(lengths)
	slices.Sort(errors)
	fmt.Printf("\nlines of Go            %d (left out: %s)\n", sum, strings.Join(leftOut[1:], " "))
	fmt.Printf("types                  %d\n", types)
	fmt.Printf("functions              %d, half of them up to %d lines, 99 of 100 up to %d, %s %d\n", len(lengths), lengths[len(lengths)/2], lengths[len(lengths)*99/100],
		longest, lengths[len(lengths)-1])
	fmt.Printf("orderings of stages    %d\n", tables)
	fmt.Printf("kinds of errors        %d: %s\n", len(errors), strings.Join(errors, ", "))
	fmt.Printf("auditor's list         %d lines: %s\n", audited(sources), strings.Join(auditors, " "))
}

// stageTables counts the tables of stages that a declaration has.
func stageTables(v *ast.ValueSpec) (n int) {
	for _, value := range v.Values {
		if list, ok := value.(*ast.CompositeLit); ok {
			if array, ok := list.Type.(*ast.ArrayType); ok {
				if id, ok := array.Elt.(*ast.Ident); ok && id.Name == "Stage" {
					n++
				}
			}
		}
	}
	return n
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return "?"
}

// audited is the sum of what an auditor reads.
func audited(sources []source) (sum int) {
	for _, s := range sources {
		if slices.ContainsFunc(auditors, func(a string) bool { return s.path == a || strings.HasPrefix(s.path, a+"/") }) {
			sum += s.lines
		}
	}
	return sum
}
