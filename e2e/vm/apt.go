package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Archive is one suite of Debian's for one architecture, asked through apt with a configuration of its own: the machine's apt is left
// alone, no lock of it is taken, and an ordinary user can do it.
type Archive struct {
	Suite string // bookworm, trixie-backports, bullseye-security
	Arch  string // as Debian calls it: amd64, arm64
	cache string
}

// Cache is the directory for what is fetched and kept: $NSRUN_VM_CACHE, else nsrun-vm in the user's cache directory.
func Cache() (string, error) {
	dir := os.Getenv("NSRUN_VM_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil { // no home
			base = "/var/cache"
		}
		dir = filepath.Join(base, "nsrun-vm")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// OpenArchive makes a suite ready: its lists are at most a day old.
func OpenArchive(suite, arch string) (*Archive, error) {
	for _, name := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%s is not installed: kernels and programs for virtual machines come as Debian's packages", name)
		}
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	a := &Archive{suite, arch, cache}
	if err := os.MkdirAll(filepath.Join(a.dir(), "debs"), 0o755); err != nil {
		return nil, err
	}
	return a, locked(a.lock(), a.refresh)
}

// Ages of what the cache holds.
const (
	listsAge   = 24 * time.Hour
	packageAge = 30 * 24 * time.Hour // since it was used
)

// refresh brings the lists, and removes packages that nobody has used for long.
func (a *Archive) refresh() error {
	if info, err := os.Stat(a.fresh()); err == nil && time.Since(info.ModTime()) < listsAge {
		return nil
	}
	if err := a.configure(); err != nil {
		return err
	}
	if _, err := a.run("apt-get", "update", "-q"); err != nil {
		return fmt.Errorf("suite %s (%s): %w; a suite that has gone: give its rows in e2e/vm/matrix.go another one", a.Suite, a.Arch, err)
	}
	files, err := filepath.Glob(filepath.Join(a.dir(), "debs", "*.deb"))
	for _, file := range files {
		if info, statErr := os.Stat(file); statErr == nil && time.Since(info.ModTime()) > packageAge {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return errors.Join(err, os.WriteFile(a.fresh(), nil, 0o644))
}

func (a *Archive) fresh() string { return filepath.Join(a.dir(), "fresh") }

func (a *Archive) lock() string { return filepath.Join(a.dir(), "lock") }

func (a *Archive) dir() string { return filepath.Join(a.cache, "apt", a.Suite+"-"+a.Arch) }

// configure writes what apt is told.
func (a *Archive) configure() error {
	mirror, err := mirrorOf(a.Suite)
	if err != nil {
		return err
	}
	dir := a.dir()
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	config := fmt.Sprintf(`Dir::State "%[1]s/state";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "%[1]s/parts";
Dir::Etc::preferencesparts "%[1]s/parts";
APT::Architecture "%[2]s";
APT::Architectures {"%[2]s";};
APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::Check-Valid-Until "false"; // of a release that is no longer kept
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
`, dir, a.Arch)
	source := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, a.Suite)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "apt.conf"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, "sources.list"), []byte(source), 0o644),
		os.WriteFile(filepath.Join(dir, "status"), nil, 0o644))
}

func (a *Archive) run(name string, args ...string) (string, error) {
	return a.runIn(filepath.Join(a.dir(), "debs"), name, args...)
}

func (a *Archive) runIn(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir(), "apt.conf"), "LC_ALL=C")
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Names lists the suite's packages whose whole names match.
func (a *Archive) Names(pattern string) ([]string, error) {
	match, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, err
	}
	text, err := a.run("apt-cache", "pkgnames")
	if err != nil {
		return nil, err
	}
	var found []string
	for name := range strings.Lines(text) {
		if name = strings.TrimSpace(name); match.MatchString(name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, nil
}

// uri is a line of apt-get --print-uris: address, file name, size, hash.
var uri = regexp.MustCompile(`(?m)^'[^']*' (\S+) (\d+) `)

// Fetch returns the files of some packages, and with all also of those that they depend on. What has been fetched before is not again.
func (a *Archive) Fetch(all bool, names ...string) (files []string, err error) {
	err = locked(a.lock(), func() error {
		files, err = a.fetch(all, names)
		if err == nil {
			return nil
		}
		// An archive keeps the newest version only: what yesterday's lists name may have gone.
		if again := errors.Join(os.Remove(a.fresh()), a.refresh()); again != nil {
			return errors.Join(err, again)
		}
		files, err = a.fetch(all, names)
		return err
	})
	return files, err
}

func (a *Archive) fetch(all bool, names []string) (files []string, err error) {
	what := []string{"download"}
	if all {
		what = []string{"install", "--download-only", "-y"}
	}
	text, err := a.runIn(a.dir(), "apt-get", slices.Concat([]string{"-q", "--print-uris"}, what, names)...) // it is silent of files that are there
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, m := range uri.FindAllStringSubmatch(text, -1) {
		file := filepath.Join(a.dir(), "debs", m[1])
		if info, err := os.Stat(file); err != nil || fmt.Sprint(info.Size()) != m[2] {
			missing = append(missing, packageOf(m[1]))
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("suite %s has none of %v", a.Suite, names)
	}
	if len(missing) > 0 {
		if _, err := a.run("apt-get", append([]string{"-q", "download"}, missing...)...); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	for _, file := range files { // apt leaves the time that the archive has it from
		err = errors.Join(err, os.Chtimes(file, now, now))
	}
	return files, err
}

// packageOf is NAME of NAME_VERSION_ARCH.deb, with the version, which may not be the suite's only one.
func packageOf(file string) string {
	name, rest, _ := strings.Cut(file, "_")
	version, _, _ := strings.Cut(rest, "_")
	return name + "=" + strings.ReplaceAll(version, "%3a", ":")
}

// mirrorOf is where a suite is: NSRUN_VM_MIRROR and NSRUN_VM_SECURITY_MIRROR, else the places that the machine's own apt has.
func mirrorOf(suite string) (string, error) {
	name, word := "NSRUN_VM_MIRROR", "debian"
	if strings.HasSuffix(suite, "-security") {
		name, word = "NSRUN_VM_SECURITY_MIRROR", "debian-security"
	}
	if mirror := os.Getenv(name); mirror != "" {
		return mirror, nil
	}
	var text []byte
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, _ := os.ReadFile(file)
			text = append(append(text, data...), '\n')
		}
	}
	if mirror := findMirror(string(text), word); mirror != "" {
		return mirror, nil
	}
	return "", fmt.Errorf("no archive %q in the sources of this machine's apt: set %s to the address of one", word, name)
}

// findMirror finds the first address in apt's sources, of either format, whose path ends with a word.
func findMirror(sources, word string) string {
	line := regexp.MustCompile(`(?m)^(?:URIs:|deb(?: \[[^\]]*\])?)[ \t]+(\S+/` + word + `)/?(?:\s|$)`)
	if m := line.FindStringSubmatch(sources); m != nil {
		return m[1]
	}
	return ""
}
