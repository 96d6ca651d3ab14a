package audit

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Redacted stands in the place of a secret.
const Redacted = "[redacted]"

// Redact replaces what has the look of a secret in the words of a command line, and says how often: the word after a flag like --token; the
// value in NAME=value and "name": "value" if [policy.SecretName] takes the name for a secret's; what follows "Authorization:" and "Cookie:";
// passwords in URLs; and what begins as the tokens of well-known providers do. It looks into scripts and headers too, which are one word. A word
// that is NAME=value or --name=value is all value, blanks and & included, unless the value is quoted and more follows, as in a script.
func Redact(argv []string) ([]string, int) {
	out, n := make([]string, len(argv)), 0
	after := ""
	for i, word := range argv {
		r := redactor{}
		out[i] = r.word(word, after)
		n += r.n
		after = ""
		if secretFlag(word) {
			after = Redacted
		} else if word == "-u" || word == "--user" || word == "--proxy-user" {
			after = ":"
		}
	}
	return out, n
}

// redactText is Redact for one text that is no command line.
func redactText(s string) (string, int) {
	out, n := Redact([]string{s})
	return out[0], n
}

type redactor struct{ n int }

func (r *redactor) instead() string {
	r.n++
	return Redacted
}

// word redacts one word. after is what the word before asks for: all of it, or what follows a colon.
func (r *redactor) word(w, after string) string {
	if after == Redacted && w != "" {
		return r.instead()
	}
	if user, password, ok := strings.Cut(w, ":"); ok && after == ":" && password != "" {
		return user + ":" + r.instead()
	}
	if i := valueAt(w); i > 0 && (w[0] == '-' || !quote(w[i])) {
		return w[:i] + r.instead()
	}
	return r.providers(r.tokens(r.urls(w)))
}

// valueAt is where the value begins in a word that assigns one to the name of a secret, and 0 in others.
func valueAt(w string) int {
	name, value, ok := strings.Cut(w, "=")
	if !ok || value == "" || !plainName(name) || !secretName(strings.TrimLeft(name, "-")) {
		return 0
	}
	return len(name) + 1
}

// plainName reports whether s has the look of a name: of a variable, an option or a setting.
func plainName(s string) bool {
	return strings.Trim(lowered(s), "abcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

// secretFlag reports whether the next word is a secret: --token, -password.
func secretFlag(w string) bool {
	return strings.HasPrefix(w, "-") && !strings.ContainsAny(w, "= ") && secretName(strings.TrimLeft(w, "-"))
}

// short are names that are secrets on command lines, though not among variables.
var short = []string{"PASS", "AUTH", "BEARER", "CREDENTIALS", "PASSPHRASE", "PRIVATE_KEY", "ACCESS_KEY", "SECRET_KEY", "PAT", "COOKIE", "PWD_FILE"}

func secretName(name string) bool {
	upper := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
	// apiKey and accessToken, as JSON has them, end as their relatives with an underline do.
	return upper != "" && (policy.SecretName(upper) || slices.Contains(short, upper) || strings.HasSuffix(upper, "TOKEN") ||
		strings.HasSuffix(upper, "SECRET") || strings.HasSuffix(upper, "APIKEY"))
}

// separators end a token: blanks, what quotes, and what shells, URLs and JSON put between names.
const separators = " \t\r\n\"'`;&|()<>,{}?"

// tokens redacts what a name before it says is a secret.
func (r *redactor) tokens(w string) string {
	var out strings.Builder
	next, before, open := nothing, byte(0), opening{}
	for w != "" {
		n := tokenEnd(w)
		switch {
		case n > 0:
			found := r.n
			out.WriteString(r.token(w[:n], &next))
			if r.n > found { // a value may hold what also stands between names
				n = valueEnd(w, n)
			}
		case next == value && quote(w[0]) && opens(before):
			n = quotedEnd(w, before == '\\')
			out.WriteString(r.quoted(w[:n]))
			next = nothing
		default:
			closed := open.passes(w[0], before == '\\', next == rest)
			if next == rest && (closed || w[0] == '\r') || w[0] == '\n' && (next == rest || next == header) {
				next = nothing
			}
			out.WriteByte(w[0])
			n = 1
		}
		before = w[n-1]
		w = w[n:]
	}
	return out.String()
}

// valueEnd is where the value ends whose first token does so at n: a comma and its like are part of it where something follows at once.
func valueEnd(w string, n int) int {
	for n+1 < len(w) && strings.IndexByte(",?{}", w[n]) >= 0 {
		more := tokenEnd(w[n+1:])
		if more == 0 {
			break
		}
		n += 1 + more
	}
	return n
}

// tokenEnd is how long the token is that w begins with. What would end it is part of it after a backslash, but for quotes.
func tokenEnd(w string) int {
	for n := 0; ; n++ {
		i := strings.IndexAny(w[n:], separators)
		if i < 0 {
			return len(w)
		}
		if n += i; n == 0 || quote(w[n]) || w[n-1] != '\\' {
			return n
		}
	}
}

// opening is the quote that what is being read stands in, if it does.
type opening struct {
	by      byte
	escaped bool
}

// passes takes the next separator, and reports whether it closes the quote. Those of a header's own open none.
func (o *opening) passes(c byte, escaped, ofHeader bool) (closed bool) {
	switch {
	case !quote(c):
	case o.by == c && o.escaped == escaped:
		*o, closed = opening{}, true
	case o.by == 0 && !ofHeader:
		*o = opening{c, escaped}
	}
	return closed
}

func quote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// opens reports whether a quote after that byte begins a value: after a flag's last letter it ends what the flag stands in.
func opens(before byte) bool { return strings.IndexByte(separators+`=:[$\`, before) >= 0 }

// quotedEnd is how long the value is that begins with a quote: up to that which closes it, and on as shells join what stands without a blank
// between. One that is not closed goes to the end. Where the quote is escaped so is the one that closes it.
func quotedEnd(w string, escaped bool) int {
	if escaped {
		if i := strings.Index(w[1:], `\`+w[:1]); i >= 0 {
			return 1 + i
		}
		return len(w)
	}
	open := byte(0)
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case c == '\\':
			i++
		case c == open:
			open = 0
		case open == 0 && quote(c):
			open = c
		case open == 0 && strings.IndexByte(separators, c) >= 0:
			return i
		}
	}
	return len(w)
}

// quoted redacts a value with its quotes.
func (r *redactor) quoted(v string) string {
	q := v[:1]
	switch {
	case v == q+q:
		return v
	case len(v) > 1 && strings.HasSuffix(v, q):
		return q + r.instead() + q
	}
	return q + r.instead()
}

// expectation is what the tokens before say of one.
type expectation int

const (
	nothing expectation = iota
	named               // a name of a secret: after a colon or equals sign comes its value
	value               // a secret
	header              // a secret, perhaps after the name of a scheme
	rest                // secrets up to a quote or the end of the line
)

// schemes stand before what an Authorization header holds.
var schemes = []string{"basic", "bearer", "digest", "token", "negotiate", "apikey"}

func (r *redactor) token(t string, next *expectation) string {
	was := *next
	*next = nothing
	lower := lowered(t)
	switch {
	case was == rest:
		*next = rest
		return r.instead()
	case was == header: // after a scheme that is known, or not
		*next = rest
		if slices.Contains(schemes, lower) {
			return t
		}
		return r.instead()
	case was == value:
		return r.instead()
	case was == named && strings.Trim(t, `[]:=+?\`) == "" && strings.ContainsAny(t, ":="):
		*next = value
		return t
	case was == named && len(t) > 1 && (t[0] == ':' || t[0] == '='):
		return t[:1] + r.instead()
	case lower == "authorization:" || lower == "proxy-authorization:":
		*next = header
		return t
	case lower == "bearer" || secretFlag(t):
		*next = value
		return t
	case strings.HasSuffix(t, ":") && secretName(t[:len(t)-1]) && !strings.HasSuffix(lower, "cookie:"):
		*next = value
		return t
	}
	return r.assignment(t, lower, next)
}

// assignment redacts the value of NAME=value and name:value.
func (r *redactor) assignment(t, lower string, next *expectation) string {
	for _, name := range []string{"authorization:", "cookie:"} { // as in -HAuthorization:Bearer
		_, said, ok := strings.Cut(lower, name)
		if !ok {
			continue
		}
		*next = rest
		if said == "" || slices.Contains(schemes, said) {
			return t
		}
		return t[:len(t)-len(said)] + r.instead()
	}
	for from := 0; ; { // as in --env=TOKEN=value
		i := from + strings.IndexAny(t[from:], "=:")
		if i < from {
			break
		}
		name := strings.TrimRight(strings.TrimLeft(t[from:i], "-"), "+?") // as in TOKEN+=value
		switch {
		case !secretName(name) || from > 0 && !plainName(name):
		case strings.Trim(t[i+1:], `$=[\`) == "": // its value is quoted, or empty
			*next = value
			return t
		default:
			return t[:i+1] + r.instead()
		}
		from = i + 1
	}
	if secretName(t) {
		*next = named
	}
	return t
}

// providers is how well-known kinds of tokens begin, and the least that follows.
var providers = [...]struct {
	prefix string
	least  int
}{{"sk-", 6}, {"ghp_", 4}, {"gho_", 4}, {"ghu_", 4}, {"ghs_", 4}, {"ghr_", 4}, {"github_pat_", 4}, {"xoxa-", 4}, {"xoxb-", 4},
	{"xoxe-", 4}, {"xoxp-", 4}, {"xoxr-", 4}, {"xoxs-", 4}, {"AKIA", 12}, {"ASIA", 12}, {"AIza", 16}, {"glpat-", 4}, {"hf_", 8}, {"eyJ", 8}}

// providers redacts such tokens wherever a name could begin.
func (r *redactor) providers(w string) string {
	var out strings.Builder
	for i := 0; i < len(w); {
		n := 0
		if i == 0 || !tokenByte(w[i-1]) || w[i-1] == '=' || w[i-1] == '/' {
			n = provided(w[i:])
		}
		if n == 0 {
			out.WriteByte(w[i])
			i++
			continue
		}
		out.WriteString(r.instead())
		i += n
	}
	return out.String()
}

// provided is how long the token is that w begins with, or 0.
func provided(w string) int {
	for _, p := range providers {
		if !strings.HasPrefix(w, p.prefix) {
			continue
		}
		if p.prefix == "eyJ" && !strings.Contains(w[:min(len(w), 4<<10)], ".") {
			continue // a token of the kind has a dot, other base64 has none
		}
		n := len(p.prefix)
		for n < len(w) && tokenByte(w[n]) {
			n++
		}
		if n-len(p.prefix) >= p.least && (p.prefix != "eyJ" || strings.Contains(w[:n], ".")) {
			return n
		}
	}
	return 0
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.=+/", c) >= 0
}

// lowered has lower case letters for those of ASCII, and leaves all other bytes as they are.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
