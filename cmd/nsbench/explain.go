package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

type explainProgram struct{ title, flags, command string }

// explainPrograms are what --explain is measured with: programs that open and look at many files. DIR is a workspace of [makeWorkspace].
var explainPrograms = []explainProgram{
	{"git status", "", "git -C DIR status --short"},
	{"gcc -c", "", "gcc -c -o DIR/c/main.o DIR/c/main.c"},
	{"python imports", "", "python3 -c 'import json, asyncio, http.client, email, sqlite3, unittest, decimal'"},
	{"go vet", "--tool go", "go -C DIR vet ./..."},
	{"find", "", "find DIR -name nothing"},
	{"grep -r", "", "! grep -r no-such-word DIR"},
}

// explain measures programs in nsrun run, without and with --explain, and below strace outside.
func (b *bench) explain() error {
	dir := filepath.Join(b.dir, "explain")
	if err := makeWorkspace(dir); err != nil {
		return err
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		b.leaveOut("explain", "strace", "it is not on PATH")
	}
	for _, p := range explainPrograms {
		name := strings.Fields(strings.TrimPrefix(p.command, "! "))[0]
		if _, err := exec.LookPath(name); err != nil {
			b.leaveOut("explain: "+p.title, name, "it is not on PATH")
			continue
		}
		command := []string{"sh", "-c", strings.ReplaceAll(p.command, "DIR", dir)}
		var all []*contender
		for i, level := range []string{"off", "on", "all"} {
			argv := slices.Concat([]string{b.nsrun, "run", "--explain=" + level, "--workspace", dir}, strings.Fields(p.flags), []string{"--"}, command)
			all = append(all, &contender{name: "nsrun run --explain=" + level, argv: argv, base: i == 0})
		}
		if strace != "" {
			all = append(all, &contender{name: "strace -f, outside", argv: append([]string{strace, "-f", "-o", "/dev/null"}, command...)})
		}
		if err := b.hold(contest{title: "explain: " + p.title, rounds: b.share(4), contenders: all}); err != nil {
			return err
		}
	}
	return nil
}

// makeWorkspace makes a git repository with 1000 files in 100 directories, a program in C, and one in Go.
func makeWorkspace(dir string) error {
	files := map[string]string{"c/main.c": "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/stat.h>\nint main(void) { return 0; }\n",
		"go.mod": "module example\n\ngo 1.21\n", "main.go": "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\nfunc main() { fmt.Println(http.StatusOK) }\n"}
	for i := range 1000 {
		files[fmt.Sprintf("dir%d/file%d", i%100, i)] = fmt.Sprintln("a line of file", i)
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil
	}
	script := "git init -q && git add . && git -c user.name=n -c user.email=n@example.com commit -qm all"
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git in the workspace: %w: %s", err, out)
	}
	return nil
}
