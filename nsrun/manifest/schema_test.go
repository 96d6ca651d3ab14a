package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPublishedSchemas(t *testing.T) {
	for file, schema := range map[string][]byte{"schema.json": Schema(), "ceiling.schema.json": CeilingSchema()} {
		if *update {
			require.NoError(t, os.WriteFile(file, schema, 0o644))
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(data), string(schema), "go test ./nsrun/manifest -run TestPublishedSchemas -update writes it anew")
	}
}

// TestSchemaAgreesWithParse holds each manifest against both readers of the table.
func TestSchemaAgreesWithParse(t *testing.T) {
	const unseen = "what a schema cannot see"
	for text, want := range map[string]string{
		"{}": "", everything: "",
		`{"capabilities":["mail:x",{"kind":"mail","mode":"x","hints":["$HOME"]},{"kind":"fs","mode":"read"}]}`: "",
		`{"seccomp":"off","limits":{"timeout":1,"kill_grace":"1.5s","core":0},"workspace":"~/x"}`:              "",
		`{"network":"allow"}`: "bad", `{"network":{"allow":[]}}`: "", `{"network":{"allow":["a.b:443"],"x":1}}`: "bad", `{"network":{"allow":["*"]}}`: unseen, `{"x":1}`: "bad", `{"version":2}`: "bad", `{"name":1}`: "bad",
		`{"capabilities":["fs"]}`: "bad", `{"capabilities":["fs:x"]}`: "bad", `{"capabilities":[{"kind":"fs"}]}`: "bad",
		`{"capabilities":[{"kind":"fs","mode":"x"}]}`: "bad", `{"capabilities":[{"kind":"fs","mode":"read","hints":["$HOME"]}]}`: "bad",
		`{"capabilities":[{"kind":"x","mode":"read","hint":[]}]}`: "bad", `{"capabilities":[1]}`: "bad", `{"workspace":"x"}`: "bad",
		`{"workspace":"/w","workspace_at":"x"}`: "bad", `{"chdir":"x"}`: "bad", `{"limits":{"pids":0}}`: "bad", `{"limits":{"pids":1.5}}`: "bad",
		`{"limits":{"memory_mb":"2G","cpu_seconds":"1h30m","cpu_percent":"50%","core":"1k","io_read_mb":"5MiB/s"}}`: "", `{"limits":{"memory_mb":"2X"}}`: "bad",
		`{"limits":{"memory_mb":"2"}}`: "bad", `{"limits":{"pids":"2k"}}`: "bad", `{"limits":{"cpu_seconds":"2M"}}`: "bad", `{"limits":{"memory_mb":"9999999T"}}`: unseen,
		`{"limits":{"timeout":0}}`: "bad", `{"limits":{"timeout":"soon"}}`: "bad", `{"limits":{"memory":1}}`: "bad", `{"landlock":"no"}`: "bad",
		`{"uid":-1}`: "bad", `{"uid":null}`: "bad", `{"fallback":"x"}`: "bad", `{"seccomp":{"filter":1}}`: "bad", `{"seccomp":[]}`: "bad",
		`{"audit":"/a.jsonl"}`: "", `{"audit":"/a.log"}`: "bad", `{"audit":"a.jsonl"}`: "bad", `{"audit":"/a/../b.jsonl"}`: unseen,
		`{"set_env":{"A=":"x"}}`: "bad", `{"set_env":{"A":1}}`: "bad", `{"pass_env":["A*"]}`: "bad", `{"hostname":"a b"}`: "bad", `[]`: "bad",
		`{"workspace_at":"same"}`: unseen, `{"workspace":"/a/../b"}`: unseen, `{"name":"a\u0000"}`: unseen, `{"sockets":["/proc/x"]}`: unseen,
	} {
		var schema, value any
		require.NoError(t, json.Unmarshal(Schema(), &schema))
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		_, err := Parse("m", []byte(text))
		assert.Equalf(t, want == "", err == nil, "Parse of %s: %v", text, err)
		err = valid(schema.(map[string]any), value)
		assert.Equalf(t, want != "bad", err == nil, "the schema on %s: %v", text, err)
	}
}

// valid checks a value against the part of JSON Schema that our schemas use, and fails on any other.
func valid(s map[string]any, v any) error {
	for key, arg := range s {
		if err := keyword(key, arg, s, v); err != nil {
			return err
		}
	}
	return nil
}

func keyword(key string, arg any, s map[string]any, v any) error {
	obj, _ := v.(map[string]any)
	num, isNum := v.(float64)
	str, isStr := v.(string)
	bad := fmt.Errorf("%v is against %s %v", v, key, arg)
	switch key {
	case "$schema", "title", "description", "default", "then":
	case "type":
		is := map[string]bool{"string": isStr, "integer": isNum && num == math.Trunc(num), "object": obj != nil, "boolean": v == true || v == false}
		_, is["array"] = v.([]any)
		if !is[arg.(string)] {
			return bad
		}
	case "enum", "const":
		all, ok := arg.([]any)
		if !ok {
			all = []any{arg}
		}
		for _, one := range all {
			if reflect.DeepEqual(one, v) {
				return nil
			}
		}
		return bad
	case "pattern":
		if isStr && !regexp.MustCompile(arg.(string)).MatchString(str) {
			return bad
		}
	case "minimum":
		if isNum && num < arg.(float64) {
			return bad
		}
	case "maximum":
		if isNum && num > arg.(float64) {
			return bad
		}
	default:
		return nested(key, arg, s, v, bad)
	}
	return nil
}

// nested checks the keywords that hold schemas or names of members.
func nested(key string, arg any, s map[string]any, v any, bad error) error {
	obj, _ := v.(map[string]any)
	switch key {
	case "required":
		for _, name := range arg.([]any) {
			if _, ok := obj[name.(string)]; obj != nil && !ok {
				return bad
			}
		}
	case "properties":
		for name, sub := range arg.(map[string]any) {
			if one, ok := obj[name]; ok {
				if err := valid(sub.(map[string]any), one); err != nil {
					return err
				}
			}
		}
	case "additionalProperties":
		known, _ := s["properties"].(map[string]any)
		for name, one := range obj {
			if _, ok := known[name]; ok {
				continue
			}
			sub, ok := arg.(map[string]any)
			if !ok {
				return bad
			}
			if err := valid(sub, one); err != nil {
				return err
			}
		}
	case "propertyNames":
		for name := range obj {
			if err := valid(arg.(map[string]any), name); err != nil {
				return err
			}
		}
	case "items":
		items, _ := v.([]any)
		for _, one := range items {
			if err := valid(arg.(map[string]any), one); err != nil {
				return err
			}
		}
	case "oneOf":
		n := 0
		for _, sub := range arg.([]any) {
			if valid(sub.(map[string]any), v) == nil {
				n++
			}
		}
		if n != 1 {
			return bad
		}
	case "if":
		if valid(arg.(map[string]any), v) == nil {
			return valid(s["then"].(map[string]any), v)
		}
	default:
		return fmt.Errorf("this test does not know the keyword %s", key)
	}
	return nil
}
