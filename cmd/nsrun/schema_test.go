package main

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write result.schema.json, and the table of verdicts in doc/limits.md, anew")

// comments are the doc comments of fields, by type and name: "nsrun.Result.Code".
type comments map[string]string

// readComments reads those of structs in the Go files of some directories.
func readComments(t *testing.T, dirs ...string) comments {
	c := comments{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					c.read(file.Name.Name+"."+spec.Name.Name+".", s)
				}
				return false
			})
		}
	}
	return c
}

func (c comments) read(prefix string, s *ast.StructType) {
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			text := field.Doc.Text() + field.Comment.Text()
			c[prefix+name.Name] = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
		}
	}
}

// of is the comment of a field without its name, and with those that JSON has for other fields in the place of Go's.
func (c comments) of(t reflect.Type, field reflect.StructField) string {
	text := strings.TrimPrefix(c[t.String()+"."+field.Name], field.Name+" is ")
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		text = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(text, name)
	}
	return text
}

// schemaOf is the JSON Schema of what encoding/json makes of a type, in the words of its comments.
func schemaOf(t reflect.Type, docs comments) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), docs)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), docs)}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for f := range t.Fields() {
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			property := schemaOf(f.Type, docs)
			property["description"] = docs.of(t, f)
			properties[name] = property
			if rest == "" {
				required = append(required, name)
			}
		}
		s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
		if len(required) > 0 {
			s["required"] = required
		}
		return s
	case reflect.String:
		if t == reflect.TypeFor[result.Verdict]() {
			return map[string]any{"enum": result.Verdicts}
		}
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0}
	}
	return map[string]any{"type": "integer"}
}

// TestResultSchema keeps the published schema to the fields that results have.
func TestResultSchema(t *testing.T) {
	s := schemaOf(reflect.TypeFor[result.Result](), readComments(t, "../../nsrun/result", "../../nsrun/plan", "../../nsrun/policy"))
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "the result of nsrun run: how the command ended, and what was on"
	want, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	assert.NotContains(t, string(want), `"description": ""`, "each field has a comment that describes it")
	if *update {
		require.NoError(t, os.WriteFile("result.schema.json", append(want, '\n'), 0o644))
		return
	}
	assert.Equal(t, string(want)+"\n", resultSchema, "go test ./cmd/nsrun -run TestResultSchema -update writes it anew")
}

// TestVerdictsAreAll finds every constant of the type in the package's source.
func TestVerdictsAreAll(t *testing.T) {
	source, err := os.ReadFile("../../nsrun/result/verdict.go")
	require.NoError(t, err)
	found := 0
	for line := range strings.SplitSeq(string(source), "\n") {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "Verdict" && f[2] == "=" {
			found++
			assert.Contains(t, result.Verdicts, result.Verdict(strings.Trim(f[3], `"`)))
		}
	}
	assert.Len(t, result.Verdicts, found)
}
