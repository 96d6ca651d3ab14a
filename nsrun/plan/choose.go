package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// named is the engine that a policy names, and empty if it leaves the choice to us.
func named(p policy.Policy) string {
	switch {
	case p.Isolation.Level() != policy.Container:
		return EngineNone
	case p.Backend == "" || p.Backend == policy.BackendAuto:
		return ""
	}
	return string(p.Backend)
}

// descend takes the first engine of the ladder that can be used. What the ones above it wanted is a note.
func descend(req Request, f facts.Facts) (*Plan, error) {
	var first []Note
	var refused []string
	for _, engine := range ladder() {
		if unsure(engine, f) {
			continue
		}
		p, unmet, err := compile(req, f, engine)
		switch {
		case err != nil && engine == EngineNative:
			return nil, err
		case err == nil && unmet == nil:
			p.Notes = append(passedOver(first), p.Notes...)
			return p, nil
		case err != nil:
			refused = append(refused, fmt.Sprintf("nor can the engine %s: %v", engine, err))
		case engine == EngineNative:
			first = unmet
		default:
			refused = append(refused, fmt.Sprintf("nor can the engine %s: %s", engine, join(unmet)))
		}
	}
	return nil, &CompatibilityError{Unmet: first, Instead: strings.Join(refused, "\n")}
}

// ladder lists the engines that fallback degrade may come to. None is not among them: to go without a sandbox takes a word of its own.
func ladder() []string {
	return slices.DeleteFunc(slices.Clone(Engines()), func(e string) bool { return e == EngineNone })
}

// unsure reports that an engine is another program, of which nothing is known. Native is tried all the same, as a start that fails is
// a probe.
func unsure(engine string, f facts.Facts) bool {
	switch engine {
	case EngineBwrap:
		return f.State(facts.Bwrap) == facts.Unknown
	case EngineDocker:
		docker, podman := f.State(facts.Docker), f.State(facts.Podman)
		return docker != facts.Yes && podman != facts.Yes && (docker == facts.Unknown || podman == facts.Unknown)
	}
	return false
}

// passedOver says why the strongest engine was not used.
func passedOver(unmet []Note) []Note {
	if len(unmet) == 0 {
		return nil
	}
	return []Note{{Feature: "engine", Loss: "native cannot be used here: " + join(unmet)}}
}

// instead says what fallback degrade would come to.
func instead(req Request, f facts.Facts) string {
	req.Policy.Fallback = policy.Degrade
	p, err := descend(req, f)
	if err != nil || p.Engine == EngineNative { // each loss has said so itself
		return ""
	}
	return fmt.Sprintf("  with fallback degrade (--fallback degrade) the engine %s would run it, without the guarantees %s", p.Engine, strings.Join(p.Lost(), ", "))
}

func join(notes []Note) string {
	var words []string
	for _, n := range Together(notes) {
		words = append(words, n.String())
	}
	return strings.Join(words, "; ")
}
