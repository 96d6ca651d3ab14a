package audit

import "strings"

// urls redacts what stands before the @ of a URL: a password, or without one the user, which is a token then.
func (r *redactor) urls(w string) string {
	var out strings.Builder
	for {
		scheme, rest, ok := strings.Cut(w, "://")
		out.WriteString(scheme)
		if !ok {
			return out.String()
		}
		out.WriteString("://")
		if at := userEnd(rest); at >= 0 {
			if user, _, ok := strings.Cut(rest[:at], ":"); ok {
				out.WriteString(user + ":")
			}
			out.WriteString(r.instead())
			rest = rest[at:]
		}
		w = rest
	}
}

// userEnd is where the @ is that ends the user and password of a URL, without its scheme, and -1 where there are none. A password that is not
// escaped can hold what ends the host's part of a URL, / ? # and @: then it ends at the last @.
func userEnd(rest string) int {
	if next := strings.Index(rest, "://"); next >= 0 { // of another URL
		rest = rest[:next]
	}
	if end := strings.IndexAny(rest, " \t\r\n'\"`"); end >= 0 {
		rest = rest[:end]
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	at := strings.LastIndexByte(host, '@')
	colon := strings.IndexByte(host, ':')
	if colon < 0 || at < 0 && port(rest[colon+1:]) || at >= 0 && (colon > at || hostName(host[at+1:])) {
		return at
	}
	return strings.LastIndexByte(rest, '@')
}

// port reports whether what follows a host's colon is a port, and no password: digits, and a slash or the next of several hosts.
func port(s string) bool {
	digits := strings.TrimLeft(s, "0123456789")
	n := len(s) - len(digits)
	return n > 0 && n <= 5 && (digits == "" || digits[0] == '/' || digits[0] == ',')
}

// hostName reports whether s is a host by its name, perhaps with a port: what could be the end of a password has seldom a dot.
func hostName(s string) bool {
	return strings.Contains(s, ".") && strings.Trim(lowered(s), "abcdefghijklmnopqrstuvwxyz0123456789.-:,") == ""
}
