package facts

import (
	"fmt"
	"path"
	"strings"
)

// Program is an executable file.
type Program struct {
	Path string `json:"path,omitempty"`
	// Writable is the file itself or a directory above it, if another user than root can write to it.
	Writable string `json:"writable,omitempty"`
}

// AppArmorFile is where the profile of [Program.AppArmorProfile] belongs.
const AppArmorFile = "/etc/apparmor.d/nsrun"

// plainPath are the characters that mean themselves in a path of a profile: apparmor.d(5). A blank does so within quotes.
const plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+- "

// AppArmorProfile is a profile that lets the program, and what it starts, make user namespaces where kernel.apparmor_restrict_unprivileged_userns
// is 1, and nothing else on the host. It fails for a program that others than root can replace, since they would get the exemption.
func (p Program) AppArmorProfile() (string, error) {
	dir := path.Dir(p.Path)
	switch {
	case !path.IsAbs(p.Path) || strings.HasSuffix(p.Path, " (deleted)"):
		return "", fmt.Errorf("AppArmor profile: the path of the running nsrun is not known (%q)", p.Path)
	case p.Writable != "":
		return "", fmt.Errorf("AppArmor profile: %s can be written to by others than root, and whoever replaces %s would get its exemption; %s", p.Writable, p.Path, p.install())
	case strings.Trim(p.Path, plainPath) != "" || strings.Contains(p.Path, "//") || dir == "/":
		return "", fmt.Errorf("AppArmor profile: %q has characters that a profile gives another meaning; %s", p.Path, p.install())
	}
	attachment := p.Path
	if strings.Contains(attachment, " ") {
		attachment = `"` + attachment + `"`
	}
	return `# This profile lets nsrun make user namespaces where kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu from 23.10 on.
# It confines nothing. Programs that nsrun starts without a sandbox (backend none) keep the permission.
abi <abi/4.0>,
include <tunables/global>

profile nsrun ` + attachment + ` flags=(unconfined) {
  userns,

  include if exists <local/nsrun>
}
`, nil
}

func (p Program) install() string {
	return "install it for root first: sudo install -m 755 " + shellWord(p.Path) + " /usr/local/bin/nsrun"
}

// AppArmorFix is the action that lets the program make user namespaces on such a host.
func (p Program) AppArmorFix() string {
	if _, err := p.AppArmorProfile(); err != nil && path.IsAbs(p.Path) {
		return p.install() + ", and ask /usr/local/bin/nsrun doctor again for an AppArmor profile"
	}
	command := "nsrun"
	if path.IsAbs(p.Path) {
		command = shellWord(p.Path)
	}
	return fmt.Sprintf("%s doctor --apparmor-profile | sudo tee %s && sudo apparmor_parser -r %s", command, AppArmorFile, AppArmorFile)
}

// shellWord quotes a path for a shell, if that is needed.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, strings.TrimSuffix(plainPath, " ")) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
