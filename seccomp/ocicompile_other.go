//go:build !(libseccomp && cgo && linux)

package seccomp

import (
	"errors"
	"fmt"
)

// CompileOCI needs a build with the tag libseccomp. Without the tag it returns [errors.ErrUnsupported].
func CompileOCI([]byte, Arch) (Filter, error) {
	return nil, fmt.Errorf("a seccomp profile in JSON takes a build with libseccomp (CGO_ENABLED=1 go build -tags libseccomp), which can also make a BPF file of it for this one (nsrun seccomp compile): %w", errors.ErrUnsupported)
}
