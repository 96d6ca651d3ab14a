package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// most is how large a file with a row may be.
const most = 64 << 10

// fromFile reads a row from a file: JSON with the fields of a [Tool]. Its name is the file's path, so that no ceiling takes it for one of the table.
func fromFile(name string) (Tool, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return Tool{}, err
	}
	if err := policy.CheckPath(abs); err != nil {
		return Tool{}, err
	}
	file, err := os.OpenFile(abs, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a FIFO
	if err != nil {
		return Tool{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return Tool{}, fmt.Errorf("%s: not a file with a row", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return Tool{}, err
	}
	if len(data) > most {
		return Tool{}, fmt.Errorf("%s: it has more than %d bytes", name, most)
	}
	t, err := parse(data)
	if err != nil {
		return Tool{}, fmt.Errorf("%s: %w", name, err)
	}
	t.Name = abs
	return t, nil
}

func parse(data []byte) (t Tool, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var row struct {
		Tool
		Here json.RawMessage `json:"here"` // what nsrun tool show --json has found: of another host, perhaps
	}
	if err := d.Decode(&row); err != nil {
		return t, fmt.Errorf("%w; a row is one object, as nsrun tool show --json go prints it", err)
	}
	t = row.Tool
	if _, err := d.Token(); err != io.EOF {
		return t, fmt.Errorf("there is more after the row; write one row a file")
	}
	return t, t.check()
}

// check returns the first fault of a row that was read.
func (t Tool) check() error {
	for i, place := range t.Places {
		if err := place.check(); err != nil {
			return fmt.Errorf("places[%d]: %w", i, err)
		}
	}
	for _, name := range t.Pass {
		if !policy.ValidEnvName(name) {
			return fmt.Errorf("pass: %q is not a variable name", name)
		}
	}
	for _, v := range slices.Concat(t.Set, t.Offline) {
		if !policy.ValidEnvName(v.Name) {
			return fmt.Errorf("set: %q is not a variable name", v.Name)
		}
	}
	filters := slices.DeleteFunc(slices.Clone(policy.SeccompFilters), func(f string) bool { return f == policy.SeccompOff })
	if t.Filter != "" && !slices.Contains(filters, t.Filter) {
		return fmt.Errorf("filter: %q is unknown; use %s", t.Filter, strings.Join(filters, ", "))
	}
	return nil
}

func (p Place) check() error {
	if !slices.Contains(Kinds, p.Kind) {
		return fmt.Errorf("kind: %q is unknown; use %s", p.Kind, strings.Join(policy.Words(Kinds), ", "))
	}
	if p.Kind == Repository {
		if p.Path != "" {
			return fmt.Errorf("path: %q; leave it out, as a repository is looked for at the workspace", p.Path)
		}
		return nil
	}
	for one := range strings.SplitSeq(p.Path, "|") {
		if err := checkPlace("path", one); err != nil {
			return err
		}
	}
	if p.At == "" {
		return nil
	}
	return checkPlace("at", p.At)
}

func checkPlace(field, text string) error {
	first, rest, _ := strings.Cut(text, "/")
	name, variable := strings.CutPrefix(first, "$")
	if first != "~" && first != "" && !(variable && policy.ValidEnvName(name)) {
		return fmt.Errorf("%s: %q begins with none of /, ~/ and $NAME", field, text)
	}
	if err := policy.CheckPath("/" + rest); err != nil || rest == "" && !variable {
		return fmt.Errorf("%s: %q; give a clean path of something below it", field, text)
	}
	return nil
}
