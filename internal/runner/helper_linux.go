package runner

import (
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/backend"
)

// helperPath is where the network helper is: beside this program.
func helperPath() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(self); err == nil { // /proc/self/exe of a program that was started by a link is the file already
		self = real
	}
	return filepath.Join(filepath.Dir(self), backend.HelperName)
}
