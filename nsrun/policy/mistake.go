package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
)

// secretPlaces are below the home directory: who can write a directory above one of them can take, or replace, keys, and sessions of browsers. A
// grant of such a place itself is not taken for a mistake: it is named.
var secretPlaces = []string{".ssh", ".gnupg", ".aws", ".kube", ".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge"}

// Secret reports whether a directory lies in one of the places below the home directory where keys, and sessions of browsers, are kept.
func Secret(dir, home string) bool {
	return slices.ContainsFunc(secretPlaces, func(place string) bool { return Inside(dir, path.Join(home, place)) })
}

// mistakes returns a *[Fault] for each writable grant that is probably a mistake, unless it is forced. Each names what usually suffices.
func (p Policy) mistakes() error {
	if p.Autonomy.effect(grantWrite) != AsWritten {
		return nil
	}
	var faults []error
	for i, e := range p.FS {
		forced := func(o FS) bool { return o.Force && o.Source == e.Source }
		if e.Kind != Bind || !e.Write || e.System || slices.ContainsFunc(p.FS, forced) {
			continue
		}
		if why, instead := Mistake(e.Source, p.Home); why != "" {
			faults = append(faults, &Fault{Field: cmp.Or(e.Why, fmt.Sprintf("fs[%d]", i)), Why: e.Why,
				Text: fmt.Sprintf("%s is %s; %s, or insist with --force-rw %s (in a manifest: force_rw, or \"force\": true in mounts)", e.Source, why, instead, e.Source)})
		}
	}
	return errors.Join(faults...)
}

// ofSystem reports whether a directory holds the system's programs or settings, but for the places below which people put their own.
func ofSystem(dir string) bool {
	own := func(place string) bool { return dir != place && Inside(dir, place) }
	return !slices.ContainsFunc([]string{"/opt", "/usr/src", "/usr/local/src", "/var/lib/python3"}, own) &&
		slices.ContainsFunc(slices.Concat(SystemDirs, SystemFacts), func(system string) bool { return Inside(dir, system) || Inside(system, dir) })
}

// Mistake says why a writable grant of dir is probably a mistake, and what usually suffices.
func Mistake(dir, home string) (why, instead string) {
	const narrower = "grant the directory that is needed, as with --workspace "
	switch {
	case dir == "/":
		return "the whole host", narrower + "DIR"
	case home != "" && dir == home:
		return "your home directory, with your keys and what your shell runs", narrower + path.Join(home, "DIR")
	case home != "" && Inside(home, dir):
		return "a directory above your home directory", narrower + path.Join(home, "DIR")
	case ofSystem(dir):
		return "a directory of the system", "copy what is to be changed to a directory of yours, and grant that"
	}
	for _, secret := range secretPlaces {
		if place := path.Join(home, secret); home != "" && dir != place && Inside(place, dir) {
			return "where keys or sessions of browsers are kept, as in " + place, narrower + path.Join(dir, "DIR")
		}
	}
	return "", ""
}
