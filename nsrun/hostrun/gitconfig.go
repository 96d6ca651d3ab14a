package hostrun

import (
	"errors"
	"fmt"
	"strings"
)

// Setting is one variable of a git configuration. Key is as git config --list prints it: section and name in lower case, the subsection as it is.
type Setting struct{ Key, Value string }

// Bounds of a configuration that is parsed.
const (
	MaxGitConfig = 1 << 20 // bytes
	maxSettings  = 20000
)

var errNUL = errors.New("it holds a NUL byte")

// ParseGitConfig reads a configuration as git does (git_parse_source in git's config.c): sections in both forms, quotes, escapes, continued lines and
// comments. It refuses what git refuses, and files above MaxGitConfig. A variable without a value is "true".
func ParseGitConfig(data []byte) ([]Setting, error) {
	switch {
	case len(data) > MaxGitConfig:
		return nil, fmt.Errorf("it has more than %d bytes", MaxGitConfig)
	case strings.IndexByte(string(data), 0) >= 0:
		return nil, errNUL
	}
	p := &configParser{text: strings.TrimPrefix(string(data), "\ufeff"), line: 1}
	return p.parse()
}

type configParser struct {
	text string
	at   int
	line int
	ends bool // the end has been read
}

// next returns the next character. The end of the file reads as the end of a line, and so does CR LF.
func (p *configParser) next() byte {
	if p.at >= len(p.text) {
		p.ends = true
		return '\n'
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		p.at++
		c = '\n'
	}
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *configParser) bad() error { return fmt.Errorf("line %d is not git's syntax", p.line) }

func (p *configParser) parse() (settings []Setting, err error) {
	section, comment := "", false
	for {
		c := p.next()
		switch {
		case c == '\n' && p.ends:
			return settings, nil
		case c == '\n':
			comment = false
		case comment, space(c):
		case c == '#' || c == ';':
			comment = true
		case c == '[':
			if section, err = p.section(); err != nil {
				return nil, err
			}
		case !letter(c) || section == "":
			return nil, p.bad()
		default:
			s, err := p.variable(c)
			if err != nil {
				return nil, err
			}
			if len(settings) == maxSettings {
				return nil, fmt.Errorf("it has more than %d settings", maxSettings)
			}
			s.Key = section + "." + s.Key
			settings = append(settings, s)
		}
	}
}

// section reads what follows a bracket.
func (p *configParser) section() (string, error) {
	var name strings.Builder
	for {
		c := p.next()
		switch {
		case p.ends:
			return "", p.bad()
		case c == ']' && name.Len() > 0:
			return name.String(), nil
		case c == ' ' || c == '\t':
			return p.subsection(name.String())
		case letter(c), digit(c), c == '-', c == '.':
			name.WriteByte(lower(c))
		default:
			return "", p.bad()
		}
	}
}

// subsection reads a quoted one, to the bracket.
func (p *configParser) subsection(section string) (string, error) {
	c := p.next()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c != '"' || section == "" {
		return "", p.bad()
	}
	var name strings.Builder
	name.WriteString(section + ".")
	for {
		switch c = p.next(); c {
		case '\n':
			return "", p.bad()
		case '"':
			if p.next() != ']' {
				return "", p.bad()
			}
			return name.String(), nil
		case '\\':
			if c = p.next(); c == '\n' {
				return "", p.bad()
			}
		}
		name.WriteByte(c)
	}
}

// variable reads a name, of which the first character is known, and its value.
func (p *configParser) variable(first byte) (s Setting, err error) {
	name := []byte{lower(first)}
	c := p.next()
	for letter(c) || digit(c) || c == '-' {
		name = append(name, lower(c))
		c = p.next()
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	s = Setting{Key: string(name), Value: "true"}
	switch c {
	case '\n':
	case '=':
		s.Value, err = p.value()
	default:
		err = p.bad()
	}
	return s, err
}

// escapes are what follows a backslash in a value, beside the end of a line, and escaped what each stands for.
const escapes, escaped = `tbn\"`, "\t\b\n\\\""

// value reads one, which ends with a line that is not continued.
func (p *configParser) value() (string, error) {
	var out []byte
	quote, comment, keep := false, false, 0
	for {
		c := p.next()
		switch {
		case c == '\n' && quote:
			return "", p.bad()
		case c == '\n':
			return string(out[:keep]), nil
		case comment:
			continue
		case space(c) && !quote:
			if len(out) > 0 {
				out = append(out, c)
			}
			continue // it counts if something follows
		case !quote && (c == '#' || c == ';'):
			comment = true
			continue
		case c == '"':
			quote = !quote
			keep = len(out)
			continue
		case c == '\\':
			if c = p.next(); c == '\n' {
				if p.ends {
					return string(out[:keep]), nil
				}
				continue
			}
			i := strings.IndexByte(escapes, c)
			if i < 0 {
				return "", p.bad()
			}
			c = escaped[i]
		}
		out = append(out, c)
		keep = len(out)
	}
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
func space(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
