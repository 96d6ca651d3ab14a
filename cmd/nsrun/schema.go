package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/session"
	"github.com/nsrun/nsrun/nsrun/manifest"
)

//go:embed result.schema.json
var resultSchema string

// schemas are what nsrun reads and writes, as JSON Schema.
var schemas = []struct {
	name string
	text func() string
}{
	{"manifest", func() string { return string(manifest.Schema()) }},
	{"ceiling", func() string { return string(manifest.CeilingSchema()) }},
	{"result", func() string { return resultSchema }},
	{"session", session.Schema},
}

func (a *app) schema(args []string) int {
	fs := newFlags("schema")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	for _, s := range schemas {
		if fs.NArg() == 1 && fs.Arg(0) == s.name {
			return a.print(s.text())
		}
	}
	return a.fail(fmt.Errorf("write nsrun schema NAME, with one of %s", strings.Join(schemaNames(), ", ")))
}

func schemaNames() (names []string) {
	for _, s := range schemas {
		names = append(names, s.name)
	}
	return names
}
