package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// placeholders are the words of a shape that stand for others.
var placeholders = []string{"FILE", "PACKAGE", "N", "WORD", "CODE"}

// letterOptions is the kind of a word of options of one letter each, none of which takes a value.
const letterOptions = "-[]"

// token is one word of a shape.
type token struct {
	kind   string // a placeholder, letterOptions, "..." for the rest, or "" for the word itself
	text   string // the word itself; what comes before a number, or after a file's name; the letters
	repeat bool   // one or more
}

// parse reads a shape. The empty one is that of a command without arguments.
func parse(shape string) ([]token, error) {
	if shape == "" {
		return nil, nil
	}
	words := strings.Split(shape, " ")
	tokens := make([]token, len(words))
	for i, w := range words {
		t, err := parseWord(w)
		if err != nil {
			return nil, err
		}
		if (t.repeat || t.kind == "...") && i < len(words)-1 {
			return nil, fmt.Errorf("%q takes all that follows; put it last", w)
		}
		tokens[i] = t
	}
	return tokens, nil
}

func parseWord(w string) (token, error) {
	base, repeat := strings.CutSuffix(w, "...")
	name, ending, _ := strings.Cut(base, ".")
	switch {
	case w == "":
		return token{}, errors.New("words are separated by one blank, with none before or after")
	case w == "...":
		return token{kind: "..."}, nil
	case w == "-N":
		return token{kind: "N", text: "-"}, nil
	case strings.HasPrefix(w, "-["):
		letters, ok := strings.CutSuffix(w[2:], "]")
		if !ok || letters == "" || strings.Trim(letters, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return token{}, fmt.Errorf("%q: between the brackets stand letters and digits, of which an option may have any, as in -[iln]", w)
		}
		return token{kind: letterOptions, text: letters}, nil
	case slices.Contains(placeholders, base) && !(repeat && (base == "N" || base == "CODE")):
		return token{kind: base, repeat: repeat}, nil
	case name == "FILE" && ending != "" && !strings.Contains(base, "/"):
		return token{kind: "FILE", text: "." + ending, repeat: repeat}, nil
	case repeat && base != "./":
		return token{}, fmt.Errorf("%q: only FILE, PACKAGE and WORD can be repeated; for any further words write ... alone", w)
	case len(w) > 1 && strings.Trim(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "":
		text := fmt.Sprintf("%q is no placeholder; known are %s", w, strings.Join(placeholders, ", "))
		for _, p := range placeholders { // policy.Nearest is for names in lower case
			if near, ok := policy.Nearest(w, []string{strings.ToLower(p)}); ok {
				text = fmt.Sprintf("%q is no placeholder; did you mean %s?", w, strings.ToUpper(near))
			}
		}
		return token{}, errors.New(text)
	case policy.CheckText(w) != nil || shellWord(w) != "":
		return token{}, fmt.Errorf("%q holds what no argument can hold here: control characters, or what only a shell expands", w)
	}
	return token{text: w}, nil
}

// CheckShape says what is wrong with a shape.
func CheckShape(shape string) error {
	_, err := parse(shape)
	return err
}

// CheckProgram says why a program cannot be named so in command rules.
func CheckProgram(name string) error {
	if name == "" || name[0] == '-' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+._-") != "" || name == "." || name == ".." {
		return fmt.Errorf("%q is not a program's name; write it as it stands in a directory of PATH, such as python3", name)
	}
	return nil
}

// Why words do not fit.
const (
	notNamed   = "no rule names it"
	noOption   = "no rule names this option there"
	notMore    = "nothing may follow there"
	wordWanted = "a word that is no option is wanted there"
	isMissing  = " is missing" // after the word
)

// miss is a word that does not fit: its index in the arguments, which is their number where one is missing.
type miss struct {
	at  int
	why string
}

// fit holds arguments against a shape. It returns the indices of those that name places in the workspace.
func fit(tokens []token, args []string) (files []int, missed *miss) {
	at := 0
	for _, t := range tokens {
		if t.kind == "..." {
			for i := at; i < len(args); i++ {
				if leadsAway(args[i]) {
					files = append(files, i)
				}
			}
			return files, noShell(args, at)
		}
		for first := true; first || t.repeat && at < len(args); first = false {
			if at == len(args) {
				return nil, &miss{at, t.String() + isMissing}
			}
			if why := t.refuses(args[at]); why != "" {
				return nil, &miss{at, why}
			}
			if t.kind == "FILE" || t.kind == "PACKAGE" {
				files = append(files, at)
			}
			at++
		}
	}
	if at < len(args) {
		return nil, &miss{at, notMore}
	}
	return files, nil
}

// leadsAway reports whether a word reads as a path that need not stay below the working directory. In the place of ... it must lead into the
// workspace, as a FILE.
func leadsAway(w string) bool {
	return strings.HasPrefix(w, "/") || w == ".." || strings.HasPrefix(w, "../") || strings.Contains(w, "/../")
}

func noShell(args []string, from int) *miss {
	for i := from; i < len(args); i++ {
		if why := shellWord(args[i]); why != "" {
			return &miss{i, why}
		}
	}
	return nil
}

// refuses says why a word is not what the token stands for.
func (t token) refuses(w string) string {
	if t.kind == "CODE" {
		return ""
	}
	if why := shellWord(w); why != "" {
		return why
	}
	switch t.kind {
	case "":
		if w != t.text {
			return notNamed
		}
	case "N":
		digits, ok := strings.CutPrefix(w, t.text)
		if t.text != "" && (digits == "" || !ok || digits[0] < '0' || digits[0] > '9') {
			return notNamed
		}
		if !ok || digits == "" || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" {
			return "a number is wanted there"
		}
	case letterOptions:
		if letters, ok := strings.CutPrefix(w, "-"); !ok || letters == "" || strings.Trim(letters, t.text) != "" {
			return notNamed
		}
	case "WORD":
		if w == "" || w[0] == '-' {
			return wordWanted
		}
	default:
		return t.refusesPlace(w)
	}
	return ""
}

func (t token) refusesPlace(w string) string {
	local := slices.Contains([]string{".", ".."}, w) || strings.HasPrefix(w, "./") || strings.HasPrefix(w, "../") || strings.HasPrefix(w, "/")
	switch {
	case w == "":
		return "it is empty; name a file"
	case w == "-":
		return "it would be standard input; name a file"
	case w == "--":
		return "there is no need for it: a file is never taken for an option; write ./-name for one whose name begins with a hyphen"
	case w[0] == '-':
		return noOption
	case w[0] == '@':
		return "it would be a file of further arguments, which nobody has checked"
	case policy.CheckText(w) != nil:
		return "it holds control characters, marks that reorder text, or bytes that are not UTF-8"
	case t.text != "" && (!strings.HasSuffix(w, t.text) || strings.HasSuffix(w, "/"+t.text)):
		return "a file whose name ends in " + t.text + " is wanted there"
	case t.kind == "PACKAGE" && !local:
		return "packages are named by their directories; write ./... or ./dir"
	case t.kind == "PACKAGE" && strings.Contains(strings.TrimSuffix(w, "/..."), "..."): // what follows could lead elsewhere: ./.../../../etc
		return "... stands only at the end, after a slash"
	}
	return ""
}

// place is the path that a word names: of a pattern of packages, the directory above the wildcard.
func (t token) place(w string) string {
	dir, all := strings.CutSuffix(w, "/...")
	switch {
	case t.kind != "PACKAGE" || !all:
		return w
	case dir == "":
		return "/"
	}
	return dir
}

// String gives the token as shapes have it.
func (t token) String() string {
	switch {
	case t.kind == "N":
		return t.text + t.kind
	case t.kind == "FILE":
		return t.kind + t.text
	case t.kind == "":
		return t.text
	case t.kind == letterOptions:
		return "-[" + t.text + "]"
	}
	return t.kind
}
