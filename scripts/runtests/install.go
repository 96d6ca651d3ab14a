package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// install installs Debian's packages that the stages need, if this is root on Debian. Otherwise it says which are missing; where CI is set
// that is an error. It returns the packages that are missing in the end.
func install(ctx context.Context, out io.Writer, stages []stage) (missing []string, err error) {
	for _, p := range needed(stages) {
		if !installed(ctx, p) {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	words := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		fmt.Fprintf(out, "missing: %s (as root: apt-get update && apt-get install %s); tests that need them are skipped\n", words, words)
		if os.Getenv("CI") != "" {
			return missing, fmt.Errorf("in CI these packages must be installed: %s", words)
		}
		return missing, nil
	}
	fmt.Fprintf(out, "installing %s\n", words)
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)} {
		cmd := exec.Command("apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt does not leave packages half installed
		if text, err := cmd.CombinedOutput(); err != nil {
			return missing, fmt.Errorf("apt-get %s: %w\n%s", args[0], err, text)
		}
	}
	return nil, nil
}

func installed(ctx context.Context, name string) bool {
	// Other builds of nodejs than Debian's bring npm along, and conflict with Debian's.
	if _, err := exec.LookPath("npm"); name == "npm" && err == nil {
		return true
	}
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f=${Status}", name).Output()
	return err == nil && string(out) == "install ok installed"
}

// needed lists the packages that the stages need.
func needed(stages []stage) (list []string) {
	for _, s := range stages {
		list = append(list, s.packages...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
