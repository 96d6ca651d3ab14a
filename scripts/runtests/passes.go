package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// inputs says which files of the tree a stage's result depends on.
type inputs struct {
	// tests is a package's directory: of the files named *_test.go only that package's count. Empty: all of them do.
	tests string
}

// documents are files that no test reads but those of internal/doctest, which depend on every file.
var documents = []string{"LICENSE", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", ".gitignore"}

// counts reports whether a stage depends on a file.
func (in inputs) counts(name string) bool {
	switch {
	case in.tests == "":
		return true // checks of the tree itself look at everything
	case slices.Contains(documents, name), strings.HasPrefix(name, "doc/adr/"):
		return false
	case strings.HasSuffix(name, "_test.go"):
		return path.Dir(name) == in.tests
	}
	return true
}

// ledger remembers which stages have passed, each under the hash of its inputs, outside of the tree.
type ledger struct {
	dir   string
	files map[string]string // name in the tree: hash
	names []string
	base  string // what every stage depends on
	wrote []string
	mu    sync.Mutex
}

func newLedger(ctx context.Context, root string) (*ledger, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("a place for passed stages: %w", err)
	}
	l := &ledger{dir: filepath.Join(cache, "nsrun-tests", "passed"), files: map[string]string{}}
	if l.names, err = treeFiles(ctx, root); err != nil {
		return nil, err
	}
	slices.Sort(l.names)
	for _, name := range l.names {
		if l.files[name], err = hashFile(filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	l.base = fmt.Sprintln(runtime.Version(), runtime.GOARCH, unix.ByteSliceToString(uts.Release[:]), os.Getuid())
	for _, v := range os.Environ() { // what changes how tests run
		if name, _, _ := strings.Cut(v, "="); name == "CI" || strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "NSRUN_") && name != runVar {
			l.base += v + "\n"
		}
	}
	return l, nil
}

func hashFile(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, info.Mode())
	if info.Mode()&os.ModeSymlink != 0 {
		to, err := os.Readlink(name)
		fmt.Fprint(h, to)
		return hex.EncodeToString(h.Sum(nil)), err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// file is where a stage's pass is remembered.
func (l *ledger) file(ctx context.Context, s stage) string {
	h := sha256.New()
	fmt.Fprintln(h, l.base, s.name)
	for _, p := range s.packages {
		out, _ := exec.CommandContext(ctx, "dpkg-query", "-W", p).Output() // with its version; nothing where it is not installed
		fmt.Fprintln(h, p, string(out))
	}
	for _, name := range l.names {
		if s.inputs.counts(name) {
			fmt.Fprintln(h, name, l.files[name])
		}
	}
	return filepath.Join(l.dir, hex.EncodeToString(h.Sum(nil)))
}

// passed reports whether the stage has passed on these inputs.
func (l *ledger) passed(ctx context.Context, s stage) bool {
	_, err := os.Stat(l.file(ctx, s))
	return err == nil
}

// remember records a pass, unless the tree has changed meanwhile, or tests were skipped because this host lacks something.
func (l *ledger) remember(ctx context.Context, root string, o outcome) error {
	if o.tally.lacking > 0 {
		return nil
	}
	now, err := newLedger(ctx, root)
	if err != nil {
		return err
	}
	name := l.file(ctx, o.stage)
	if now.file(ctx, o.stage) != name {
		return nil
	}
	l.mu.Lock()
	l.wrote = append(l.wrote, name)
	l.mu.Unlock()
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, fmt.Appendf(nil, "%s %s %.1f s\n", time.Now().UTC().Format(time.RFC3339), o.stage.name, o.took.Seconds()), 0o644)
}

// forget takes back the passes of this run, which has changed the machine.
func (l *ledger) forget() {
	for _, name := range l.wrote {
		_ = os.Remove(name)
	}
}
