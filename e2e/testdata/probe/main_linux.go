// Command probe performs one named act and prints one line that says what became of it:
//
//	REACHED [detail]         the act did what it should not be able to do in a sandbox
//	BLOCKED ERRNO [detail]   it was refused
//	NA reason                this machine cannot even try
//
// Some acts print data instead (cat, status), and some prepare a caller's state and execute the rest of their words (launch).
package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

type act struct {
	words int // the least number of arguments
	do    func(args []string) error
}

// verdict is an outcome that is not simply an errno.
type verdict string

func (v verdict) Error() string { return string(v) }

func na(format string, a ...any) error      { return verdict("NA " + fmt.Sprintf(format, a...)) }
func reached(format string, a ...any) error { return verdict("REACHED " + fmt.Sprintf(format, a...)) }

// blocked is a refusal that shows as something else than an errno: an empty file, an absent name.
func blocked(errno unix.Errno, format string, a ...any) error {
	return verdict("BLOCKED " + unix.ErrnoName(errno) + " " + fmt.Sprintf(format, a...))
}

// silent ends an act that has printed its own data.
var silent = verdict("")

func main() {
	if len(os.Args) < 2 {
		fmt.Println("NA no act")
		os.Exit(2)
	}
	a, ok := acts()[os.Args[1]]
	if !ok || len(os.Args)-2 < a.words {
		fmt.Printf("NA bad act %q\n", os.Args[1:])
		os.Exit(2)
	}
	var v verdict
	var errno unix.Errno
	switch err := a.do(os.Args[2:]); {
	case err == nil:
		fmt.Println("REACHED")
	case errors.As(err, &v):
		if v != silent {
			fmt.Println(v)
		}
	case errors.As(err, &errno):
		fmt.Printf("BLOCKED %s %v\n", unix.ErrnoName(errno), err)
	default:
		fmt.Printf("NA %v\n", err)
	}
}

// acts is every act by name.
func acts() map[string]act {
	all := map[string]act{}
	for _, part := range []map[string]act{fileActs(), procActs(), callActs(), spaceActs(), netActs(), loadActs(), hostActs(), launchActs()} {
		for name, a := range part {
			all[name] = a
		}
	}
	return all
}
