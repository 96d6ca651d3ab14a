package session

import _ "embed" // the schema

//go:embed schema.json
var schema string

// Schema is the JSON Schema (draft 2020-12) of all lines, in both directions.
func Schema() string { return schema }
