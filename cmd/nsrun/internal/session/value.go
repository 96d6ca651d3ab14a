package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"golang.org/x/sys/unix"
)

// id is a client's name for a request, as JSON: a string or an integer. Empty is null.
type id string

// MarshalJSON gives it back as it came.
func (i id) MarshalJSON() ([]byte, error) {
	if i == "" {
		return []byte("null"), nil
	}
	return []byte(i), nil
}

// maxID is how long a string may be that is an id, in bytes.
const maxID = 256

// member is one entry of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members takes valid JSON apart that should be an object. path is where it stands, empty for the request itself. A key that is given twice
// is an error, and the first of both is returned all the same.
func members(raw []byte, path string) ([]member, *Error) {
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return nil, protocolError(path, "give an object", "%s is not an object", sort(raw))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	var all []member
	var fault *Error
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, protocolError(path, "write one JSON object", "%v", err)
		}
		m := member{name: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, protocolError(path, "write one JSON object", "%v", err)
		}
		if seen[m.name] {
			fault = protocolError(join(path, m.name), "keep one of the two", "the key is given twice")
			continue
		}
		seen[m.name] = true
		all = append(all, m)
	}
	return all, fault
}

func join(path, name string) string {
	if path == "" {
		return clip(name)
	}
	return path + "." + clip(name)
}

// clip shortens what a client says for an error text.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

// sort says what a JSON value is.
func sort(raw []byte) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 'n':
		return "null"
	case 't', 'f':
		return string(raw)
	}
	return "a number"
}

// read decodes the value of a field into what into points to.
func read(path string, raw json.RawMessage, into any) *Error {
	raw = bytes.TrimSpace(raw)
	switch v := into.(type) {
	case interface{ read(string, []byte) *Error }:
		return v.read(path, raw)
	case *string:
		return text(path, raw, v)
	case *bool:
		if sort(raw) != "true" && sort(raw) != "false" {
			return protocolError(path, "give true or false", "%s is neither true nor false", sort(raw))
		}
		*v = raw[0] == 't'
	case *int64:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 1 {
			return protocolError(path, "give a whole number above 0", "%s is not a whole number above 0", sort(raw))
		}
		*v = n
	case *[]string:
		return list(path, raw, v)
	case *time.Duration:
		return durationOf(path, raw, v)
	case *[]byte:
		return data(path, raw, v)
	case **runner.Size:
		return size(path, raw, v)
	case *unix.Signal:
		return signal(path, raw, v)
	case *json.RawMessage:
		*v = bytes.Clone(raw)
	default:
		panic(fmt.Sprintf("bug: no reader for %T", into))
	}
	return nil
}

func (i *id) read(path string, raw []byte) *Error {
	const fix = "give a string or an integer of your choice"
	switch sort(raw) {
	case "a string":
		var s string
		if err := text(path, raw, &s); err != nil {
			return err
		}
		if s == "" || len(s) > maxID {
			return protocolError(path, fix, "the string has %d bytes; from 1 to %d can be an id", len(s), maxID)
		}
		*i = id(marshal(s))
	case "a number":
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return protocolError(path, fix, "%s is not an integer of 64 bits", clip(string(raw)))
		}
		*i = id(strconv.FormatInt(n, 10))
	default:
		return protocolError(path, fix, "%s cannot be an id", sort(raw))
	}
	return nil
}

// text reads a string that the kernel could take: one without NUL.
func text(path string, raw []byte, into *string) *Error {
	if raw[0] != '"' {
		return protocolError(path, "give a string", "%s is not a string", sort(raw))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return protocolError(path, "give a string", "%v", err)
	}
	if strings.ContainsRune(*into, 0) {
		return protocolError(path, "remove it", "there is a NUL character")
	}
	return nil
}

func list(path string, raw []byte, into *[]string) *Error {
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return protocolError(path, `give a list of strings, as in ["ls", "-la"]`, "%s is not a list", sort(raw))
	}
	*into = make([]string, len(items))
	for i, item := range items {
		if err := text(fmt.Sprintf("%s[%d]", path, i), item, &(*into)[i]); err != nil {
			return err
		}
	}
	return nil
}
