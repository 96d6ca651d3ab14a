package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// benchBwrap compares nsrun under the name bwrap with the real one, on the same command lines.
func benchBwrap(nsrun, dir string, rounds int) error {
	theirs, err := exec.LookPath("bwrap")
	if err != nil {
		fmt.Println("no bwrap to compare with: install bubblewrap")
		return nil
	}
	ours := filepath.Join(dir, "bwrap")
	if err := os.Symlink(nsrun, ours); err != nil {
		return err
	}
	system := strings.Fields("--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64")
	closed := append([]string{"--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"}, system...)
	rows := []bwrapRow{{"as bwrap: --version", rounds, []string{"--version"}, false}, {"as bwrap: --ro-bind / /", rounds, strings.Fields("--ro-bind / / /bin/true"), false},
		{"as bwrap: all namespaces, /dev, /proc, /tmp", rounds, append(closed[:len(closed):len(closed)], "/bin/true"), false}}
	for _, n := range []int{50, 300, 1000} {
		args, err := bindArgs(dir, n, system)
		if err != nil {
			return err
		}
		rows = append(rows, bwrapRow{fmt.Sprintf("as bwrap: %d binds", n), max(5, rounds*10/n), append(args[:len(args):len(args)], "/bin/true"), false})
		if n == 300 {
			rows = append(rows, bwrapRow{"as bwrap: 300 binds by --args", max(5, rounds*10/n), args, true})
		}
	}
	for _, row := range rows {
		if err := row.compare(dir, ours, theirs); err != nil {
			return err
		}
	}
	return nil
}

// bwrapRow is one command line to measure.
type bwrapRow struct {
	title  string
	rounds int
	args   []string
	byFile bool // the options stand in a file that --args reads, and the command is /bin/true
}

func (r bwrapRow) compare(dir, ours, theirs string) error {
	all := []*runner{{name: "fork+exec", argv: []string{"/bin/true"}}, {name: "nsrun", argv: append([]string{ours}, r.args...)},
		{name: "bwrap", argv: append([]string{theirs}, r.args...)}}
	if r.byFile {
		file := filepath.Join(dir, "args")
		if err := os.WriteFile(file, []byte(strings.Join(r.args, "\x00")+"\x00"), 0o600); err != nil {
			return err
		}
		for i, name := range []string{ours, theirs} {
			all[i+1].argv, all[i+1].input = []string{name, "--args", "0", "/bin/true"}, file
		}
	}
	return compare(r.title, r.rounds, all)
}

func bindArgs(dir string, n int, system []string) ([]string, error) {
	paths, err := makeDirs(dir, n)
	args := system[:len(system):len(system)]
	for i, p := range paths {
		args = append(args, "--ro-bind", p, fmt.Sprintf("/b/%d", i))
	}
	return args, err
}
