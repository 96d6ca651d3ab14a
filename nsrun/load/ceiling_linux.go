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

// Operator reads what the operator has decided. [CeilingFile] and [CeilingVariable] always count; more files can only narrow further, and an empty
// name is none. It returns the ceilings' real paths too: they must be protected from the sandbox. A ceiling that cannot be read is an error, never
// left out. [AuditVariable] names a log.
func Operator(files ...string) (policy.Operator, []string, error) {
	return operator(CeilingFile, slices.Concat([]string{os.Getenv(CeilingVariable)}, files)...)
}

// operator takes the one ceiling that need not be there, and those that must.
func operator(optional string, files ...string) (op policy.Operator, found []string, err error) {
	for i, name := range slices.Concat([]string{optional}, files) {
		if name == "" {
			continue
		}
		data, err := File(name, manifest.MaxSize)
		if i == 0 && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return op, nil, fmt.Errorf("ceiling: %w", err)
		}
		ceiling, err := manifest.ParseCeiling(name, data)
		if err != nil {
			return op, nil, err
		}
		ceiling.File = name
		op.Ceilings, found = append(op.Ceilings, ceiling), append(found, Real(name)...)
	}
	if file := os.Getenv(AuditVariable); file != "" {
		if op.Audit = filepath.Clean(file); policy.CheckPath(op.Audit) != nil {
			return op, nil, fmt.Errorf("%s=%s: write an absolute path", AuditVariable, file)
		}
	}
	return op, found, nil
}
