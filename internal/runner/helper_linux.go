package runner

import (
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/spawner"
)

// own says where this program is its own network helper, or has that in it.
var own backend.Helper

// EmbedHelper has the network helper run from memory. It is called before anything is run.
func EmbedHelper(program string) { own.Program = program }

// OwnHelper has this program's binary be the network helper, too: serve is what it then does. It is called before [Init].
func OwnHelper(serve func()) {
	own.Path = "/proc/self/exe"
	spawner.AddRole(backend.HelperName, serve)
}

// networkHelper is this program itself, what it has in it, or the file beside it.
func networkHelper() backend.Helper {
	helper := own
	if helper.Path != "" {
		return helper
	}
	self, err := os.Executable()
	if err != nil {
		return helper
	}
	if real, err := filepath.EvalSymlinks(self); err == nil { // /proc/self/exe of a program that was started by a link is the file already
		self = real
	}
	helper.Path = filepath.Join(filepath.Dir(self), backend.HelperName)
	return helper
}
