package session

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// variables are those of the environment, each as NAME=value.
type variables []string

func (v *variables) read(path string, raw []byte) *Error {
	return pairs(path, raw, func(at, name, value string) *Error {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return protocolError(at, "give a name without = and NUL", "this cannot be a variable's name")
		}
		*v = append(*v, name+"="+value)
		return nil
	})
}

// labels are words of the client's for the rows of audit logs, each as NAME=value.
type labels []string

func (l *labels) read(path string, raw []byte) *Error {
	return pairs(path, raw, func(at, name, value string) *Error {
		if err := policy.CheckLabel(name, value); err != nil {
			return protocolError(at, "correct it, or leave it out", "%v", err)
		}
		*l = append(*l, name+"="+value)
		return nil
	})
}

// pairs hands each entry of an object of strings to add, with the place where it stands.
func pairs(path string, raw []byte, add func(at, name, value string) *Error) *Error {
	all, err := members(raw, path)
	for _, m := range all {
		var value string
		at := join(path, m.name)
		if err == nil {
			err = text(at, m.value, &value)
		}
		if err == nil {
			err = add(at, m.name, value)
		}
	}
	return err
}

// maxDuration is the longest time, as in manifests.
const maxDuration = 365 * 24 * time.Hour

// durationOf reads a time, "1m30s" or in seconds.
func durationOf(path string, raw []byte, into *time.Duration) *Error {
	const fix = `write seconds, or a number and its unit, as in "500ms", "30s" or "1m30s"`
	var s string
	switch sort(raw) {
	case "a string":
		if err := text(path, raw, &s); err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return protocolError(path, fix, "%q is not a time", clip(s))
		}
		*into = d
	case "a number":
		n, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || n > maxDuration.Seconds() {
			return protocolError(path, fix, "%s is more than a year of seconds", clip(string(raw)))
		}
		*into = time.Duration(n * float64(time.Second))
	default:
		return protocolError(path, fix, "%s is not a time", sort(raw))
	}
	if *into <= 0 || *into > maxDuration {
		return protocolError(path, "leave it out for the policy's", "%v is not a time above 0 and up to a year", *into)
	}
	return nil
}

// data reads bytes: a string for its UTF-8, or {"base64": "..."}.
func data(path string, raw []byte, into *[]byte) *Error {
	const fix = `give a string, or {"base64": "..."} for other bytes`
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return protocolError(path, fix, "%v", err)
		}
		*into = []byte(s) // NUL is fine here
		return nil
	}
	all, err := members(raw, path)
	if err != nil || len(all) != 1 || all[0].name != "base64" {
		return protocolError(path, fix, "%s is neither text nor base64", sort(raw))
	}
	var s string
	if err := text(path+".base64", all[0].value, &s); err != nil {
		return err
	}
	bytes, bad := base64.StdEncoding.DecodeString(s)
	if bad != nil {
		return protocolError(path+".base64", "use the standard alphabet, with padding", "%v", bad)
	}
	*into = bytes
	return nil
}

func size(path string, raw []byte, into **runner.Size) *Error {
	all, err := members(raw, path)
	if err != nil {
		return err
	}
	const fix = `write {"rows": 24, "cols": 80}`
	var rows, cols int64
	at := map[string]*int64{"rows": &rows, "cols": &cols}
	for _, m := range all {
		if at[m.name] == nil {
			return protocolError(join(path, m.name), fix, "a terminal has no such key")
		}
		if err := read(join(path, m.name), m.value, at[m.name]); err != nil {
			return err
		}
	}
	if rows < 1 || cols < 1 || rows > 1<<16-1 || cols > 1<<16-1 {
		return protocolError(path, fix, "rows and cols are numbers from 1 to 65535")
	}
	*into = &runner.Size{Rows: uint16(rows), Cols: uint16(cols)}
	return nil
}

// signal reads a signal's name, with SIG or without.
func signal(path string, raw []byte, into *unix.Signal) *Error {
	var name string
	if err := text(path, raw, &name); err != nil {
		return err
	}
	*into = unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if *into == 0 {
		return protocolError(path, "give a name such as TERM, INT or USR1", "%q is not a signal", clip(name))
	}
	return nil
}
