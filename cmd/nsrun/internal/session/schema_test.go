package session

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var parsed = sync.OnceValues(func() (s map[string]any, err error) {
	err = json.Unmarshal([]byte(Schema()), &s)
	return s, err
})

func theSchema(t testing.TB) map[string]any {
	t.Helper()
	s, err := parsed()
	require.NoError(t, err)
	return s
}

// checkLine holds a line against the schema: what the server writes must fit it; what it is sent must fit exactly if it is accepted.
func checkLine(t testing.TB, line string, written bool) {
	t.Helper()
	var v any
	err := json.Unmarshal([]byte(line), &v)
	s := theSchema(t)
	if written {
		require.NoError(t, err, line)
		require.NoError(t, valid(s, s, v), line)
		return
	}
	_, fault := decode([]byte(line))
	if fault == nil {
		require.NoError(t, valid(s, s["$defs"].(map[string]any)["request"].(map[string]any), v), line)
	}
}

// The schema's requests are those of the tables.
func TestSchemaHasTheFieldsOfEachOp(t *testing.T) {
	s := theSchema(t)
	variants := s["$defs"].(map[string]any)["request"].(map[string]any)["oneOf"].([]any)
	require.Len(t, variants, len(ops()))
	for i, o := range ops() {
		one := variants[i].(map[string]any)
		var names []string
		for name := range one["properties"].(map[string]any) {
			names = append(names, name)
		}
		assert.Equal(t, o.name, one["properties"].(map[string]any)["op"].(map[string]any)["const"])
		assert.ElementsMatch(t, append(strings.Fields(o.takes), "id", "op"), names, o.name)
		var needs []string
		for _, name := range one["required"].([]any) {
			needs = append(needs, name.(string))
		}
		assert.ElementsMatch(t, append(strings.Fields(o.needs), "id", "op"), needs, o.name)
	}
	var all []string
	for _, f := range (&request{}).fields() {
		all = append(all, f.name)
		used := slices.ContainsFunc(ops(), func(o op) bool { return slices.Contains(strings.Fields("id op "+o.takes), f.name) })
		assert.True(t, used, "%s is taken by an op", f.name)
	}
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "each field is there once")
}

// The schema's answers have the fields of the structs that are written.
func TestSchemaHasTheFieldsOfEachAnswer(t *testing.T) {
	defs := theSchema(t)["$defs"].(map[string]any)
	answers := defs["answer"].(map[string]any)["oneOf"].([]any)
	properties := func(v any) (names []string) {
		for name := range v.(map[string]any)["properties"].(map[string]any) {
			names = append(names, name)
		}
		return names
	}
	oks := answers[0].(map[string]any)["properties"].(map[string]any)["ok"].(map[string]any)["oneOf"].([]any)
	for i, v := range []any{ended{}, opened{}, started{}, resolved{}, closed{}, ruled{}, pong{}, nothing{}} {
		names := jsonNames(reflect.TypeOf(v))
		if _, ok := v.(ended); ok { // whose output goes around encoding/json
			names = append(names, streamNames[:]...)
		}
		assert.ElementsMatch(t, names, properties(oks[i]), "%T", v)
	}
	assert.ElementsMatch(t, jsonNames(reflect.TypeFor[Error]()), properties(answers[1].(map[string]any)["properties"].(map[string]any)["error"]))
}

func jsonNames(t reflect.Type) (names []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for f := range t.Fields() {
		switch {
		case f.Anonymous:
			names = append(names, jsonNames(f.Type)...)
			continue
		case !f.IsExported():
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// valid checks a value against the part of JSON Schema that ours uses, and fails on any other.
func valid(root, s map[string]any, v any) error {
	for key, arg := range s {
		if err := keyword(root, s, key, arg, v); err != nil {
			return err
		}
	}
	return nil
}

func keyword(root, s map[string]any, key string, arg, v any) error {
	obj, _ := v.(map[string]any)
	items, _ := v.([]any)
	num, isNum := v.(float64)
	str, isStr := v.(string)
	ok := true
	switch key {
	case "$schema", "$defs", "title", "description":
	case "$ref":
		name := strings.TrimPrefix(arg.(string), "#/$defs/")
		return valid(root, root["$defs"].(map[string]any)[name].(map[string]any), v)
	case "type":
		ok = map[string]bool{"string": isStr, "number": isNum, "integer": isNum && num == math.Trunc(num), "object": obj != nil,
			"array": reflect.TypeOf(v) == reflect.TypeFor[[]any](), "boolean": v == true || v == false, "null": v == nil}[arg.(string)]
	case "const":
		ok = reflect.DeepEqual(v, arg)
	case "enum":
		ok = slices.Contains(arg.([]any), v)
	case "pattern":
		ok = !isStr || regexp.MustCompile(arg.(string)).MatchString(str)
	case "minimum":
		ok = !isNum || num >= arg.(float64)
	case "exclusiveMinimum":
		ok = !isNum || num > arg.(float64)
	case "maximum":
		ok = !isNum || num <= arg.(float64)
	case "minLength":
		ok = !isStr || utf8.RuneCountInString(str) >= int(arg.(float64))
	case "maxLength":
		ok = !isStr || utf8.RuneCountInString(str) <= int(arg.(float64))
	case "minItems":
		ok = items == nil || len(items) >= int(arg.(float64))
	case "required":
		ok = !slices.ContainsFunc(arg.([]any), func(name any) bool { _, there := obj[name.(string)]; return !there })
	case "items":
		return each(items, func(one any) error { return valid(root, arg.(map[string]any), one) })
	case "oneOf":
		fits := slices.DeleteFunc(slices.Clone(arg.([]any)), func(sub any) bool { return valid(root, sub.(map[string]any), v) != nil })
		ok = len(fits) == 1
	case "properties", "additionalProperties", "propertyNames":
		return entriesOf(root, s, key, arg, obj)
	default:
		return fmt.Errorf("this test does not know the keyword %s", key)
	}
	if !ok {
		return fmt.Errorf("%v is against %s %v", v, key, arg)
	}
	return nil
}

func entriesOf(root, s map[string]any, key string, arg any, obj map[string]any) error {
	known, _ := s["properties"].(map[string]any)
	for name, one := range obj {
		var err error
		switch sub, isKnown := known[name].(map[string]any); {
		case key == "propertyNames":
			err = valid(root, arg.(map[string]any), name)
		case key == "properties" && isKnown:
			err = valid(root, sub, one)
		case key == "additionalProperties" && !isKnown && arg == false:
			err = fmt.Errorf("there is no key %s", name)
		case key == "additionalProperties" && !isKnown:
			err = valid(root, arg.(map[string]any), one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func each(items []any, f func(any) error) error {
	for _, one := range items {
		if err := f(one); err != nil {
			return err
		}
	}
	return nil
}
