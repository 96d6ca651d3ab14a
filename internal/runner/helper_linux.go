package runner

import (
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/spawner"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// self is the file of this program.
const self = "/proc/self/exe"

// ownHelper says that this program is its own network helper.
var ownHelper bool

// OwnHelper has this program's binary be the network helper, too: serve is what it then does. It is called before [Init].
func OwnHelper(serve func()) {
	ownHelper = true
	spawner.AddRole(backend.HelperName, serve)
}

// networkHelper is the file of the network helper for a plan that needs one: this program's own, if it is that itself or has it appended, or the one
// beside it.
func networkHelper(p *plan.Plan) string {
	if p.Allow == nil {
		return ""
	}
	if ownHelper || backend.HasHelper(self) {
		return self
	}
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(file); err == nil { // /proc/self/exe of a program that was started by a link is the file already
		file = real
	}
	return filepath.Join(filepath.Dir(file), backend.HelperName)
}
