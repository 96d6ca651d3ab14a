package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// named is the backend that a policy names, and empty if it leaves the choice to us.
func named(p policy.Policy) string {
	switch {
	case p.Isolation.Level() != policy.Container:
		return BackendNone
	case p.Backend == "" || p.Backend == policy.BackendAuto:
		return ""
	}
	return string(p.Backend)
}

// descend takes the first backend of the ladder that can be used. What the ones above it wanted is a note.
func descend(req Request, f facts.Facts) (*Plan, error) {
	var first []Note
	var refused []string
	for _, backend := range ladder() {
		if unsure(backend, f) {
			continue
		}
		p, unmet, err := compile(req, f, backend)
		switch {
		case err != nil && backend == BackendNative:
			return nil, err
		case err == nil && unmet == nil:
			p.Notes = append(passedOver(first), p.Notes...)
			return p, nil
		case err != nil:
			refused = append(refused, fmt.Sprintf("nor can the backend %s: %v", backend, err))
		case backend == BackendNative:
			first = unmet
		default:
			refused = append(refused, fmt.Sprintf("nor can the backend %s: %s", backend, join(unmet)))
		}
	}
	return nil, &CompatibilityError{Unmet: first, Instead: strings.Join(refused, "\n")}
}

// ladder lists the backends that fallback degrade may come to. None is not among them: to go without a sandbox takes a word of its own.
func ladder() []string {
	return slices.DeleteFunc(slices.Clone(Backends()), func(e string) bool { return e == BackendNone })
}

// unsure reports that a backend is another program, of which nothing is known. Native is tried all the same, as a start that fails is
// a probe.
func unsure(backend string, f facts.Facts) bool {
	switch backend {
	case BackendBwrap:
		return f.State(facts.Bwrap) == facts.Unknown
	case BackendDocker:
		docker, podman := f.State(facts.Docker), f.State(facts.Podman)
		return docker != facts.Yes && podman != facts.Yes && (docker == facts.Unknown || podman == facts.Unknown)
	}
	return false
}

// NativeUnusable begins the note "backend" that says why fallback degrade has not come to the backend native.
const NativeUnusable = "native cannot be used here: "

// passedOver says why the strongest backend was not used.
func passedOver(unmet []Note) []Note {
	if len(unmet) == 0 {
		return nil
	}
	return []Note{{Feature: "backend", Loss: NativeUnusable + join(unmet)}}
}

// instead says what fallback degrade would come to.
func instead(req Request, f facts.Facts) string {
	req.Policy.Fallback = policy.Degrade
	if req.Private == (PrivatePlace{}) { // nobody chooses one for a policy that does not come to landlock
		req.Private.Dir = "/private"
	}
	p, err := descend(req, f)
	if err != nil || p.Backend == BackendNative { // each loss has said so itself
		return ""
	}
	return fmt.Sprintf("  with fallback degrade (--fallback degrade) the backend %s would run it, without the guarantees %s", p.Backend, strings.Join(p.Lost(), ", "))
}

func join(notes []Note) string {
	var words []string
	for _, n := range Together(notes) {
		words = append(words, n.String())
	}
	return strings.Join(words, "; ")
}
