package bwrap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// maxWords bounds the words of the command line and of all argument files together.
const maxWords = 9000

// parser is the state of one Parse. What an option says goes straight into bw where a plan takes it as it is.
type parser struct {
	caller Caller
	facts  facts.Facts
	rows   []option
	words  int  // seen so far, the command's and those of argument files included
	inFile bool // inside --args

	bw        plan.Bwrap
	env       environment
	ops       []mounts.Op
	seccompFD *int
	uid, gid  *int
	wasRead   []int           // descriptors
	given     map[string]bool // the labels' options, and what --debug-opt= has said

	unshare     map[string]bool // by name of the namespace
	tryUser     bool
	tryCgroup   bool
	needsDevpts bool
	caps        uint64
	capsNamed   bool

	// What modifies the next option.
	perms  *uint32
	size   uint64
	layers []string
}

func newParser(c Caller, f facts.Facts) *parser {
	return &parser{caller: c, facts: f, rows: options[:], unshare: map[string]bool{}, given: map[string]bool{}, env: environment(slices.Clone(c.Environ))}
}

// read reads a descriptor to its end. No bytes are nil, which keeps plans comparable.
func (p *parser) read(fd int) ([]byte, error) {
	p.wasRead = append(p.wasRead, fd)
	data, err := p.caller.ReadFD(fd)
	if len(data) == 0 {
		return nil, err
	}
	return data, err
}

// die is a refusal.
func (p *parser) die(format string, args ...any) error {
	return &Exit{Code: 1, Stderr: p.line(levelError, fmt.Sprintf(format, args...))}
}

// The levels of messages, as syslog(3) numbers them.
const (
	levelError   = 3
	levelWarning = 4
)

func (p *parser) line(level int, text string) string {
	return diagnostic(p.bw.LevelPrefix, level, text)
}

// diagnostic is one line of bubblewrap's. The name in it does not depend on argv[0].
func diagnostic(prefix bool, level int, text string) string {
	if prefix {
		return fmt.Sprintf("<%d>bwrap: %s\n", level, text)
	}
	return fmt.Sprintf("bwrap: %s\n", text)
}

// onlyLast warns that an option that counts once is there again.
func (p *parser) onlyLast(name string, again bool) {
	if again && p.caller.Warn != nil {
		p.caller.Warn(p.line(levelWarning, fmt.Sprintf("Only the last %s option will take effect", name)))
	}
}

// commandLine reads the options and returns the command that follows.
func (p *parser) commandLine(args []string) ([]string, error) {
	p.words = len(args)
	if p.words > maxWords {
		return nil, p.tooMany()
	}
	rest, err := p.options(args)
	if err != nil {
		return nil, err
	}
	// --perms and --size right before the command are forgotten, as bubblewrap forgets them. Layers are not.
	return rest, p.pendingLayers()
}

func (p *parser) tooMany() error { return p.die("Exceeded maximum number of arguments %d", maxWords) }

// options reads options up to the first word that is none, and returns what follows. In an argument file that is left out.
func (p *parser) options(args []string) (rest []string, err error) {
	const bindWords = 3 // most words of a long line belong to binds
	p.ops = slices.Grow(p.ops, len(args)/bindWords)
	for len(args) > 0 {
		name := args[0]
		if name == "--" {
			return args[1:], nil
		}
		if !strings.HasPrefix(name, "-") {
			return args, nil
		}
		row, err := p.lookup(name)
		if err != nil {
			return nil, err
		}
		if len(args) <= len(row.operands) {
			return nil, p.lack(row)
		}
		if err := p.perform(row, args[1:1+len(row.operands)]); err != nil {
			return nil, err
		}
		if err := p.pending(row); err != nil {
			return nil, err
		}
		args = args[1+len(row.operands):]
	}
	return nil, nil
}

// lookup finds the row of an option. The debugging one alone carries its value after a "=".
func (p *parser) lookup(name string) (option, error) {
	if value, ok := strings.CutPrefix(name, debugOption); ok {
		return option{name: debugOption, act: func(p *parser, _ option, _ []string) error { return p.debug(value) }}, nil
	}
	i := slices.IndexFunc(p.rows, func(row option) bool { return row.name == name })
	if i < 0 {
		return option{}, p.die("Unknown option %s", name)
	}
	return p.rows[i], nil
}

// lack refuses an option that misses operands. A layer that is missing is a layer without an overlay.
func (p *parser) lack(row option) error {
	if row.name != layerOption {
		return p.die("%s", row.lack())
	}
	p.layers = append(p.layers, "")
	return cmp.Or(p.pending(row), p.pendingLayers())
}

// notEmpty refuses an empty path. Before 0.13 it meant the root. What else can be wrong with an option is said before.
func (p *parser) notEmpty(row option, operands []string) error {
	for i, o := range row.operands {
		if slices.Contains(paths, o) && operands[i] == "" {
			return p.die("%s does not take an empty path argument", row.name)
		}
	}
	return nil
}

// pending refuses an option that cannot take what came before it for the next one.
func (p *parser) pending(row option) error {
	switch {
	case !row.modifier && p.perms != nil:
		return p.die("--perms must be followed by an option that creates a file")
	case !row.modifier && p.size != 0:
		return p.die("--size must be followed by --tmpfs")
	case row.name != layerOption:
		return p.pendingLayers()
	}
	return nil
}

func (p *parser) pendingLayers() error {
	if len(p.layers) > 0 {
		return p.die("--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay")
	}
	return nil
}

// file reads options from a descriptor, each word ended by NUL. What follows the first word that is no option is not looked at.
func (p *parser) file(row option, operands []string) error {
	if p.inFile {
		return p.die("--args not supported in arguments file")
	}
	fd, err := p.fd(operands[0])
	if err != nil {
		return err
	}
	data, err := p.read(fd)
	if err != nil {
		return p.die("Can't read --args data: %v", err)
	}
	var words []string
	if len(data) > 0 {
		words = strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	}
	if p.words += len(words); p.words > maxWords {
		return p.tooMany()
	}
	p.inFile = true
	_, err = p.options(words)
	p.inFile = false
	return err
}
