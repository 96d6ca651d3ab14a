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
	// Name names the manifest in plans and results.
	Name string
	// Version is the version of the format, 1, or 0 where it is not said.
	Version int
	// Capabilities are the grants that a runtime's manifest lists.
	Capabilities []Capability
	// Workspace is a writable directory, shown at WorkspaceAt: a path inside, or "same" or empty for its own.
	Workspace, WorkspaceAt string
	// SharedDirs and ExtraRW are shown writable, ExtraRO read-only, and Sockets are Unix sockets.
	SharedDirs, Sockets, ExtraRO, ExtraRW []string
	// Code is the file of the program; its directory is shown read-only.
	Code string
	// Chdir is the working directory inside; empty means the workspace, or the code's directory, or /.
	Chdir string
	// Network is none, host, or empty for what the capabilities say.
	Network policy.Network
	// PassEnv names variables to take from the caller; SetEnv sets others, ordered by name.
	PassEnv []string
	SetEnv  []policy.Var
	// Limits, Timeout and KillGrace are "limits". 0 times mean [DefaultTimeout] and policy.DefaultKillGrace.
	Limits             []policy.Limit
	Timeout, KillGrace time.Duration
	// Seccomp says what is left of the system calls.
	Seccomp Seccomp
	// Hostname, UID and GID are what the command sees.
	Hostname string
	UID, GID *int
	// Fallback says what to do about wishes that cannot be enforced.
	Fallback policy.Fallback
	// Backend says which backend carries the policy out.
	Backend policy.Backend
	// Require lists guarantees that must hold.
	Require []string
	// Isolation is the level of containment.
	Isolation policy.Isolation
	// SelfTest has the sandbox try what must fail.
	SelfTest bool
	// Autonomy says what becomes of grants.
	Autonomy policy.Autonomy
	// Commands names the rules for what command lines may run, and CommandRules are the manifest's own, ordered by name.
	Commands     string
	CommandRules []policy.CommandRules
	// Audit is the file of an audit log.
	Audit string
	// Labels are the caller's words for the rows of audit logs, ordered by name.
	Labels []policy.Var
	// NoLandlock is "landlock": false.
	NoLandlock bool

	file   string
	places map[string]place
}

// Seccomp is the "seccomp" of a manifest: a filter's name, further calls to deny, and a file of raw BPF, for the caller to read.
type Seccomp struct {
	Filter string
	Deny   []string
	Raw    string
}

// DefaultTimeout ends a run whose manifest does not say when.
const DefaultTimeout = 30 * time.Second

// Parse reads a manifest, JSON when the first character that is not blank is {, YAML otherwise. name stands in errors for the
// file. It returns every fault at once, joined, in the file's order; each is a *[Fault]. Where the file is not JSON or YAML at all
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
	bare := m.Isolation.Level() != policy.Container
	if bare && m.Backend != "" && m.Backend != policy.BackendAuto && m.Backend != policy.BackendNone {
		d.add(d.places["isolation"], "isolation", string(m.Isolation)+" is no sandbox, and the backend "+string(m.Backend)+" is one", "remove one of them")
	}
	if (bare || m.Backend == policy.BackendNone) && m.SelfTest {
		d.add(d.places["self_test"], "self_test", "there is no sandbox to test", "remove it, or isolation and backend")
	}
	if _, err := policy.WithLabels(m.Labels); err != nil {
		d.add(d.places["labels"], "labels", err.Error(), "leave some out, or shorten them")
	}
	for i, name := range m.Require {
		if slices.Contains(m.Require[:i], name) {
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
		return nil, &Fault{File: m.name(), Text: "bug: the manifest cannot be written: " + err.Error()}
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
