package commands

import (
	"slices"
	"strings"
)

const noShellHere = "no shell ever expands anything here, and this word would be passed on as it stands; run one command at a time, and write no pipe, redirection or substitution"

// operators are words by which a command line means a shell.
var operators = []string{"|", "||", "|&", "&", "&&", ";", ";;", "!", "(", ")", "{", "}", "((", "))", "[[", "]]"}

// shellWord says why a word can only be meant for a shell, or nothing.
func shellWord(w string) string {
	if isOperator(w) || strings.Contains(w, "`") || strings.Contains(w, "$(") || strings.Contains(w, "${") || strings.HasSuffix(w, ";") && !strings.Contains(w, " ") {
		return noShellHere
	}
	return ""
}

// isOperator reports whether a word is an operator of a shell, or begins with a redirection: >out, 2>&1, <<EOF.
func isOperator(w string) bool {
	rest := strings.TrimPrefix(strings.TrimLeft(w, "0123456789"), "&")
	return slices.Contains(operators, w) || strings.HasPrefix(rest, ">") || strings.HasPrefix(rest, "<")
}
