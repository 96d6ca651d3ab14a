package nsrun

import (
	"runtime"

	"github.com/nsrun/nsrun/nsrun/plan"
)

// SeccompJSON compiles a profile in the JSON of Docker and the OCI runtimes for this machine, as raw BPF: see [Builder.Seccomp]. Builds without
// the tag libseccomp give [errors.ErrUnsupported].
func SeccompJSON(data []byte) ([]byte, error) { return plan.SeccompJSON(data, runtime.GOARCH) }
