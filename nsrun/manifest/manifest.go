package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Manifest is what a manifest file says, checked as far as that can be done without knowing where it lies. The zero Manifest is
// that of {}. Paths are as they are written; [Manifest.Policy] resolves them.
type Manifest struct {
	// Wishes has the keys that a policy has, too. 0 times mean [DefaultTimeout] and policy.DefaultKillGrace; an empty network means what the
	// capabilities say. What is set by name is ordered by it.
	Wishes policy.Policy
	// Version is the version of the format, 1, or 0 where it is not said.
	Version int
	// Capabilities are the grants that a runtime's manifest lists.
	Capabilities []Capability
	// Workspace is a writable directory, shown at WorkspaceAt: a path inside, or "same" or empty for its own.
	Workspace, WorkspaceAt string
	// SharedDirs, ExtraRW and ForceRW are shown writable, ExtraRO read-only, and Sockets are Unix sockets. ForceRW insists: see policy.FS.Force.
	SharedDirs, Sockets, ExtraRO, ExtraRW, ForceRW []string
	// Home is the home directory: one of the names that package policy has for it, or a directory of the host. Empty means policy.HomePrivate.
	Home string
	// Mounts show paths of the host at other places.
	Mounts []Mount
	// ProtectPaths are those of policy.Policy, as they are written.
	ProtectPaths []string
	// Tools are presets: names, and paths of files as they are written.
	Tools []string
	// Code is the file of the program; its directory is shown read-only.
	Code string
	// Chdir is the working directory inside; empty means the workspace, or the code's directory, or /.
	Chdir string
	// RawFilter is a file of raw BPF, and Audit that of an audit log.
	RawFilter, Audit string

	file   string
	places map[string]place
}

// DefaultTimeout ends a run whose manifest does not say when.
const DefaultTimeout = 30 * time.Second

// Parse reads a manifest, JSON when the first character that is not blank is {, YAML otherwise. name stands in errors for the
// file. It returns every fault at once, joined, in the file's order; each is a *[policy.Fault]. Where the file is not JSON or YAML at all
// there is one.
func Parse(name string, data []byte) (*Manifest, error) {
	m := &Manifest{file: name}
	places, err := parse(name, data, manifestForm(), m, m.check)
	if err != nil {
		return nil, err
	}
	m.places = places
	return m, nil
}

// parse decodes a file into a T by its form. check adds the faults of values that do not go together.
func parse[T any](name string, data []byte, f record[T], into *T, check func(*decoder)) (map[string]place, error) {
	t := &tree{faults: faults{file: name}}
	root, ok := t.read(data)
	if !ok {
		return nil, t.err()
	}
	d := &decoder{faults: &t.faults, places: make(map[string]place, 32)}
	f.read(d, root, "", into)
	check(d)
	return d.places, t.err()
}

// check finds names of command rules that are not there and, where every value is right by itself, values that do not go together.
func (m *Manifest) check(d *decoder) {
	alone := len(d.all) == 0
	m.checkCommands(d)
	if !alone {
		return
	}
	if m.WorkspaceAt != "" && m.Workspace == "" {
		d.add(d.places["workspace_at"], "workspace_at", "there is no workspace to show", "add workspace, or remove workspace_at")
	}
	w := m.Wishes
	bare := w.Isolation.Level() != policy.Container
	if bare && w.Backend != "" && w.Backend != policy.BackendAuto && w.Backend != policy.BackendNone {
		d.add(d.places["isolation"], "isolation", string(w.Isolation)+" is no sandbox, and the backend "+string(w.Backend)+" is one", "remove one of them")
	}
	if (bare || w.Backend == policy.BackendNone) && w.SelfTest {
		d.add(d.places["self_test"], "self_test", "there is no sandbox to test", "remove it, or isolation and backend")
	}
	if _, err := policy.WithLabels(w.Labels); err != nil {
		d.add(d.places["labels"], "labels", err.Error(), "leave some out, or shorten them")
	}
	for i, name := range w.Require {
		if slices.Contains(w.Require[:i], name) {
			d.add(d.places[indexed("require", i)], indexed("require", i), name+" is given twice", "remove one of them")
		}
	}
}

// Marshal gives the canonical JSON of m: keys in the order of the schema's table, defaults left out. Parse gives m back, but for
// the places of its values. It fails where Parse would, for a manifest that was not parsed.
func (m *Manifest) Marshal() ([]byte, error) {
	compact, _ := manifestForm().json(m)
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(compact), "", "  "); err != nil {
		return nil, &policy.Fault{File: m.name(), Text: "bug: the manifest cannot be written: " + err.Error()}
	}
	b.WriteByte('\n')
	if _, err := Parse(m.name(), b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (m *Manifest) name() string {
	if m.file == "" {
		return "manifest"
	}
	return m.file
}
