package load

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
)

// Manifest reads the manifest in a file, JSON or YAML, and makes the policy it asks for, as far as the ceilings of [Operator] permit. No
// sandbox of that policy can write the manifest or the ceilings. More wishes come on top of the manifest's. The error has every fault of the
// manifest, each with its line and column.
func Manifest(name string, more ...Wish) (nsrun.Policy, error) {
	pol, err := Spec(name)
	if err != nil {
		return nsrun.Policy{}, err
	}
	return permitted(pol, more, Real(name)...)
}

// Bytes is [Manifest] for a manifest that is no file. Name is what errors call it. Its relative paths start from dir, a directory that is
// there; if dir is empty they are faults.
func Bytes(name string, data []byte, dir string, more ...Wish) (nsrun.Policy, error) {
	if dir != "" {
		// The real path, as the directory of a file's manifest is: grants are not followed through symlinks.
		abs, err := realPath(dir)
		if err != nil {
			return nsrun.Policy{}, fmt.Errorf("%s: directory: %w", name, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return nsrun.Policy{}, fmt.Errorf("%s: directory: %s is not one; give that which relative paths start from", name, dir)
		}
		dir = abs
	}
	pol, err := resolve(name, data, manifest.Context{Dir: dir})
	if err != nil {
		return nsrun.Policy{}, err
	}
	return permitted(pol, more)
}

// Wish adds to what a policy asks for.
type Wish = func(policy.Policy) (policy.Policy, error)

// permitted makes a policy of what the operator leaves of all wishes.
func permitted(pol policy.Policy, more []Wish, protected ...string) (nsrun.Policy, error) {
	var err error
	for _, add := range more {
		if pol, err = add(pol); err != nil {
			return nsrun.Policy{}, err
		}
	}
	op, ceilings, err := Operator()
	if err != nil {
		return nsrun.Policy{}, err
	}
	pol, rows, err := tools.Add(pol, op, tools.Here())
	if err != nil {
		return nsrun.Policy{}, err
	}
	return nsrun.FromPolicy(pol, op, slices.Concat(protected, rows, ceilings)...)
}

// Spec reads the manifest in a file and gives what it asks for. It is for a caller that adds to it, and hands all of it, and what [Operator] has
// read, to [tools.Add] and [policy.Normalize].
func Spec(name string) (policy.Policy, error) {
	data, err := File(name, manifest.MaxSize)
	if err != nil {
		return policy.Policy{}, fmt.Errorf("manifest: %w", err)
	}
	// The real path, so that the rule that a manifest may not lie in what it makes writable cannot be led around.
	abs, err := realPath(name)
	if err != nil {
		return policy.Policy{}, fmt.Errorf("manifest: %w", err)
	}
	pol, err := resolve(name, data, manifest.Context{Dir: filepath.Dir(abs), Path: abs})
	if err == nil {
		sum := sha256.Sum256(data)
		pol.ManifestSHA256 = hex.EncodeToString(sum[:])
	}
	return pol, err
}

// resolve gives the policy that a manifest asks for, with the filter it names.
func resolve(name string, data []byte, ctx manifest.Context) (policy.Policy, error) {
	m, err := manifest.Parse(name, data)
	if err != nil {
		return policy.Policy{}, err
	}
	home, notes := runner.Home()
	ctx.Home, ctx.Read = home, Filter
	pol, err := m.Policy(ctx)
	if err != nil {
		return pol, err
	}
	pol.Notes = append(notes, pol.Notes...)
	for _, word := range pol.Tools {
		if _, err := tools.Find(word); err != nil {
			return pol, fmt.Errorf("%s: tools: %w", name, err)
		}
	}
	return pol, nil
}
