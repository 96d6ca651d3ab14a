package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shells are those that completion has a script for.
var shells = []struct {
	name string
	text func([]verb) string
}{{"bash", bashScript}, {"zsh", zshScript}, {"fish", fishScript}}

func shellNames() (names []string) {
	for _, s := range shells {
		names = append(names, s.name)
	}
	return names
}

// completion prints the script that completes nsrun's command lines in a shell. It is made from the table of verbs and their flags.
func (a *app) completion(args []string) int {
	fs := newFlags("completion")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	for _, s := range shells {
		if fs.NArg() == 1 && fs.Arg(0) == s.name {
			return a.print(s.text(shown()))
		}
	}
	return a.fail(errors.New("write nsrun completion bash, nsrun completion zsh or nsrun completion fish"))
}

// shown are the verbs but for other names of the same.
func shown() (all []verb) {
	for _, v := range verbs() {
		if v.does != "" {
			all = append(all, v)
		}
	}
	return all
}

// rows are the flags of a verb, and --help, which all have but bwrap: there it is an option of bubblewrap's.
func (v verb) rows() (rows []flagRow) {
	if v.flags != nil {
		rows = v.flags()
	}
	if v.name != "bwrap" {
		rows = append(rows, flagRow{"-h, --help", nil, "print flags and examples", ""})
	}
	return rows
}

// first are the words that a verb's first argument can be.
func (v verb) first() []string {
	if v.words == nil {
		return nil
	}
	return v.words()
}

// command says where the command begins that a verb's arguments hold: at the first word that is no flag, or only behind --.
func (v verb) command() string {
	switch {
	case !strings.Contains(v.args, "CMD"):
		return ""
	case v.words != nil:
		return "dashes"
	}
	return "word"
}

// completed is what the value of a flag can be: words, or the paths of files or directories.
func (r flagRow) completed() (words []string, files, dirs bool) {
	_, value := r.all()
	_, words = r.target()
	words = slices.Clone(words)
	for i := range words {
		if strings.Contains(value, "=") { // NAME=NUMBER
			words[i] += "="
		}
	}
	dirs = value == "DIR"
	return words, !dirs && (strings.HasPrefix(value, "PATH") || strings.HasPrefix(value, "FILE") || strings.HasPrefix(value, "SRC")), dirs
}

// flagsOf lists the flags of a verb as they are typed.
func flagsOf(rows []flagRow) (all []string) {
	for _, r := range rows {
		names, _ := r.all()
		for _, n := range names {
			all = append(all, spelled(n))
		}
	}
	return all
}

// spelled is a flag's name with its dashes, where -it and -ti have one.
func spelled(name string) string {
	if name == "it" || name == "ti" {
		return "-" + name
	}
	return dashed(name)
}

const completionHelp = `nsrun completion bash|zsh|fish     print a script that completes nsrun's command lines

The script knows verbs, flags, the values that a flag can have, and paths; behind the flags it completes the
command as the shell does without nsrun.

Examples:
  nsrun completion bash > ~/.local/share/bash-completion/completions/nsrun
  nsrun completion zsh > ~/.zfunc/_nsrun          in a directory of fpath
  nsrun completion fish > ~/.config/fish/completions/nsrun.fish
`

// bashScript is the script for bash 4 and newer. Bash splits --flag=value at the sign: see COMP_WORDBREAKS in bash(1).
func bashScript(all []verb) string {
	var out, cases, values strings.Builder
	var names, valued []string
	seen := map[string]bool{}
	for _, v := range all {
		names = append(names, v.name)
		fmt.Fprintf(&cases, "\t%s) flags='%s' first='%s' command=%s ;;\n", v.name, strings.Join(flagsOf(v.rows()), " "), strings.Join(v.first(), " "), v.command())
		for _, r := range v.rows() {
			each := flagsOf([]flagRow{r})
			if _, value := r.all(); value == "" || seen[each[0]] {
				continue
			}
			seen[each[0]] = true
			valued = append(valued, each...)
			how := ""
			switch words, files, dirs := r.completed(); {
			case words != nil:
				how = "-W '" + strings.Join(words, " ") + "'"
			case files:
				how = "-f"
			case dirs:
				how = "-d"
			default:
				continue
			}
			fmt.Fprintf(&values, "\t%s) _nsrun_add \"$2\" %s ;;\n", strings.Join(each, "|"), how)
		}
	}
	r := strings.NewReplacer("VERBS", strings.Join(names, " "), "CASES\n", cases.String(), "VALUES\n", values.String(), "VALUED", strings.Join(valued, " "))
	r.WriteString(&out, bashText)
	return out.String()
}

const bashText = `# bash completion of nsrun, made by nsrun completion bash

# _nsrun_add WORD HOW... offers what compgen makes of HOW for WORD
_nsrun_add() {
	local word=$1
	shift
	mapfile -t COMPREPLY < <(compgen "$@" -- "$word")
	case $1 in
	-f | -d) compopt -o filenames 2>/dev/null ;;
	*) [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null ;;
	esac
}

# _nsrun_value FLAG WORD completes the value of FLAG
_nsrun_value() {
	case $1 in
VALUES
	esac
}

# _nsrun_command N completes the command that begins at word N
_nsrun_command() {
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif (($1 == COMP_CWORD)); then
		_nsrun_add "$cur" -c
	else
		_nsrun_add "$cur" -f
	fi
}

_nsrun() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} flags='' first='' command='' i word place=0
	local valued=' VALUED '
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_nsrun_add "$cur" -W 'VERBS --help --version'
		return
	fi
	case ${COMP_WORDS[1]} in
CASES
	*) return ;;
	esac
	for ((i = 2; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word == -- ]]; then
			[[ $command ]] && _nsrun_command $((i + 1))
			return
		elif [[ $valued == *" $word "* ]]; then
			((i++))
			[[ ${COMP_WORDS[i]} == = ]] && ((i++))
		elif [[ $word == = ]]; then
			((i++))
		elif [[ $word != -* && $command == word ]]; then
			_nsrun_command $i
			return
		elif [[ $word != -* ]]; then
			((place++))
		fi
	done
	if [[ $cur == = ]]; then
		_nsrun_value "$prev" ''
	elif [[ $prev == = ]]; then
		_nsrun_value "${COMP_WORDS[COMP_CWORD - 2]}" "$cur"
	elif [[ $valued == *" $prev "* ]]; then
		_nsrun_value "$prev" "$cur"
	elif [[ $cur == -* ]]; then
		_nsrun_add "$cur" -W "$flags"
	elif [[ $first ]] && ((place == 0)); then
		_nsrun_add "$cur" -W "$first"
	elif [[ $command == word ]]; then
		_nsrun_command $COMP_CWORD
	else
		_nsrun_add "$cur" -f
	fi
}

complete -F _nsrun nsrun
`
