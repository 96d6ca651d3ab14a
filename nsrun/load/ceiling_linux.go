package load

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// The ceilings that always count.
const (
	CeilingFile     = "/etc/nsrun/ceiling.json" // the operator's, whoever calls; there need not be one
	CeilingVariable = "NSRUN_CEILING"           // names a file, which must be there
)

// AuditVariable names the operator's audit log, which counts beside those of flags and manifests.
const AuditVariable = "NSRUN_AUDIT"

// Under makes of a policy what its autonomy says, and cuts it down to what the operator permits, with a note for each thing that is cut.
// [CeilingFile] and [CeilingVariable] always count; more files can only narrow further, and an empty name is none. It returns the
// ceilings' real paths too: they must be protected from the sandbox. A ceiling that cannot be read is an error, never left out. The audit
// log of [AuditVariable] is added to those of the policy.
func Under(pol policy.Policy, files ...string) (policy.Policy, []string, error) {
	pol, found, err := under(CeilingFile, pol, slices.Concat([]string{os.Getenv(CeilingVariable)}, files)...)
	if err == nil {
		pol, err = audited(pol, os.Getenv(AuditVariable))
	}
	return pol, found, err
}

// audited adds the operator's log.
func audited(pol policy.Policy, file string) (policy.Policy, error) {
	switch {
	case file == "":
		return pol, nil
	case !filepath.IsAbs(file):
		return pol, fmt.Errorf("%s=%s: write an absolute path", AuditVariable, file)
	}
	if file = filepath.Clean(file); !slices.Contains(pol.Audit, file) {
		pol.Audit = append(pol.Audit[:len(pol.Audit):len(pol.Audit)], file)
	}
	return pol, nil
}

// under takes the one ceiling that need not be there, and those that must.
func under(optional string, pol policy.Policy, files ...string) (policy.Policy, []string, error) {
	pol, said := pol.ByAutonomy()
	pol.Notes = append(pol.Notes[:len(pol.Notes):len(pol.Notes)], said...)
	var found []string
	for i, name := range slices.Concat([]string{optional}, files) {
		if name == "" {
			continue
		}
		data, err := File(name, manifest.MaxSize)
		if i == 0 && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return pol, nil, fmt.Errorf("ceiling: %w", err)
		}
		ceiling, err := manifest.ParseCeiling(name, data)
		if err != nil {
			return pol, nil, err
		}
		if err := ceiling.Refuses(pol); err != nil {
			return pol, nil, fmt.Errorf("%s: %w", name, err)
		}
		found = append(found, Real(name)...)
		var cut []policy.Note
		pol, cut = pol.Under(ceiling)
		pol.Notes = append(pol.Notes[:len(pol.Notes):len(pol.Notes)], cut...)
	}
	return pol, found, nil
}
