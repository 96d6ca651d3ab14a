package main

import (
	"fmt"
	"slices"
	"strings"
)

// zshScript is the script for zsh: see zshcompsys(1), _arguments.
func zshScript(all []verb) string {
	var verbs, cases strings.Builder
	for _, v := range all {
		fmt.Fprintf(&verbs, "\t\t\t%s\n", zshQuote(v.name+":"+v.does))
		fmt.Fprintf(&cases, "\t\t%s)\n\t\t\t_arguments -S", v.name)
		if v.command() == "word" {
			cases.WriteString(" -A '-*'")
		}
		for _, r := range v.rows() {
			for _, spec := range r.zsh() {
				cases.WriteString(" \\\n\t\t\t\t" + zshQuote(spec))
			}
		}
		switch {
		case v.first() != nil:
			cases.WriteString(" \\\n\t\t\t\t" + zshQuote("1:word:("+strings.Join(v.first(), " ")+")") + " \\\n\t\t\t\t'*:file:_files'")
		case v.command() == "word":
			cases.WriteString(" \\\n\t\t\t\t'*::command:_normal'")
		default:
			cases.WriteString(" \\\n\t\t\t\t'*:file:_files'")
		}
		cases.WriteString(" ;;\n")
	}
	return fmt.Sprintf(zshText, verbs.String(), cases.String())
}

// zsh are the specifications of a flag's names for _arguments, each of which excludes the others unless the flag may be repeated.
func (r flagRow) zsh() (specs []string) {
	each := flagsOf([]flagRow{r})
	_, value := r.all()
	words, files, dirs := r.completed()
	into, _ := r.target()
	_, repeats := into.(*stringList)
	action := ""
	switch {
	case value == "":
	case words != nil:
		action = ":" + zshWord(value) + ":(" + strings.Join(words, " ") + ")"
	case files:
		action = ":" + zshWord(value) + ":_files"
	case dirs:
		action = ":" + zshWord(value) + ":_files -/"
	default:
		action = ":" + zshWord(value) + ": "
	}
	for _, name := range each {
		spec := "(" + strings.Join(each, " ") + ")" + name
		if repeats {
			spec = "*" + name
		}
		if value != "" && strings.HasPrefix(name, "--") {
			spec += "="
		}
		specs = append(specs, spec+"["+zshWord(r.help)+"]"+action)
	}
	return slices.Clip(specs)
}

// zshWord takes out of a text what _arguments would read as the end of it.
func zshWord(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

// zshQuote writes a word for the shell.
func zshQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

const zshText = `#compdef nsrun
# zsh completion of nsrun, made by nsrun completion zsh

_nsrun() {
	local curcontext=$curcontext state line
	typeset -A opt_args
	_arguments -C '(-h --help)'{-h,--help}'[print the verbs]' '(-v --version)'{-v,--version}'[print the version]' '1:verb:->verb' '*::word:->rest'
	case $state in
	verb)
		local -a verbs=(
%s		)
		_describe verb verbs ;;
	rest)
		case $words[1] in
%s		esac ;;
	esac
}

_nsrun "$@"
`

// fishScript is the script for fish: see complete(1) of fish.
func fishScript(all []verb) string {
	var out strings.Builder
	out.WriteString("# fish completion of nsrun, made by nsrun completion fish\n\ncomplete -c nsrun -f\n")
	for _, v := range all {
		fmt.Fprintf(&out, "complete -c nsrun -n __fish_use_subcommand -a %s -d %s\n", v.name, fishQuote(v.does))
		start := "complete -c nsrun -n '__fish_seen_subcommand_from " + v.name + "'"
		for _, r := range v.rows() {
			out.WriteString(start + r.fish() + " -d " + fishQuote(r.help) + "\n")
		}
		switch {
		case v.first() != nil:
			fmt.Fprintf(&out, "%s -F -a '%s'\n", start, strings.Join(v.first(), " "))
		case v.command() == "word":
			out.WriteString(start + " -a '(__fish_complete_subcommand)'\n")
		default:
			out.WriteString(start + " -F\n")
		}
	}
	return out.String()
}

// fish are the options of complete for the names of a flag and its value.
func (r flagRow) fish() string {
	var out strings.Builder
	for _, name := range flagsOf([]flagRow{r}) {
		switch bare := strings.TrimLeft(name, "-"); {
		case strings.HasPrefix(name, "--"):
			out.WriteString(" -l " + bare)
		case len(bare) == 1:
			out.WriteString(" -s " + bare)
		default:
			out.WriteString(" -o " + bare)
		}
	}
	_, value := r.all()
	words, files, dirs := r.completed()
	switch {
	case words != nil:
		out.WriteString(" -x -a '" + strings.Join(words, " ") + "'")
	case dirs:
		out.WriteString(" -x -a '(__fish_complete_directories)'")
	case files:
		out.WriteString(" -r -F")
	case value != "":
		out.WriteString(" -x")
	}
	return out.String()
}

// fishQuote writes a word for the shell.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
