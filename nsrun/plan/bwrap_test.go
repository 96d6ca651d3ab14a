package plan

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEveryBwrapFieldIsInTheText sets each field of the bubblewrap part and expects another text.
func TestEveryBwrapFieldIsInTheText(t *testing.T) {
	text := func(b Bwrap) string { return (&Plan{Bwrap: &b}).String() }
	base := text(Bwrap{})
	var each func(v reflect.Value, b *Bwrap, path string)
	each = func(v reflect.Value, b *Bwrap, path string) {
		for i := range v.NumField() {
			field, name := v.Field(i), path+v.Type().Field(i).Name
			if field.Kind() == reflect.Struct {
				each(field, b, name+".")
				continue
			}
			fill(field)
			assert.NotEqual(t, base, text(*b), "field %s", name)
			field.SetZero()
		}
	}
	var b Bwrap
	each(reflect.ValueOf(&b).Elem(), &b, "")
}

// fill gives v a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	default:
		panic("bug: no value for " + v.Type().String())
	}
}
