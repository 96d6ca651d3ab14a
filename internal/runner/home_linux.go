package runner

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Home is HOME if that can be a home directory, else what the account file says, else empty. It is what policies take for the home directory.
func Home() string {
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) || filepath.Clean(home) == "/" {
		u, err := user.LookupId(strconv.Itoa(os.Getuid()))
		if err != nil {
			return ""
		}
		home = u.HomeDir
	}
	if home = filepath.Clean(home); home == "/" || policy.CheckPath(home) != nil {
		return ""
	}
	return home
}
