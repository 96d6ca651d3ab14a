package manifest

import "encoding/json"

// Schema is the JSON Schema (draft 2020-12) of manifests, made from the table that decodes them. It says what a schema can: that
// keys are not given twice, that paths are clean, and what goes together, only Parse says.
func Schema() []byte { return publish(manifestForm(), "nsrun manifest") }

// CeilingSchema is that of ceilings.
func CeilingSchema() []byte { return publish(ceilingForm(), "nsrun ceiling") }

func publish(f form, title string) []byte {
	s := f.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = title
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("bug: a form has no schema: " + err.Error())
	}
	return append(out, '\n')
}
