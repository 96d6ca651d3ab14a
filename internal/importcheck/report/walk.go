package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const module = "github.com/nsrun/nsrun/"

// walks counts the functions that handle a value: those that nsrun plan --syscalls calls more often with it than without.
func walks() error {
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "nsrun")
	if out, err := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "-o", bin, "./cmd/nsrun").CombinedOutput(); err != nil {
		return fmt.Errorf("go build -cover: %w\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "notes"), 0o755); err != nil {
		return err
	}
	limits := map[string]any{"open_files": 100}
	without, err := calls(dir, bin, map[string]any{"name": "x", "limits": limits})
	if err != nil {
		return err
	}
	fmt.Println()
	for _, w := range []struct {
		what     string
		manifest map[string]any
	}{
		{"a hint, from its file to open_tree", map[string]any{"name": "x", "limits": limits,
			"capabilities": []any{map[string]any{"kind": "fs", "mode": "read", "hints": []string{"~/notes/**"}}}}},
		{"memory_mb, from its file to its system calls", map[string]any{"name": "x", "limits": map[string]any{"open_files": 100, "memory_mb": 256}}},
	} {
		with, err := calls(dir, bin, w.manifest)
		if err != nil {
			return err
		}
		functions, files, packages := 0, map[string]bool{}, map[string]bool{}
		for f, n := range with {
			file, _, _ := strings.Cut(f, " ")
			if n > without[f] && !strings.HasPrefix(file, "internal/verify/") { // which checks the program that the others have written
				functions++
				files[file], packages[filepath.Dir(file)] = true, true
			}
		}
		fmt.Printf("%s: %d functions, %d files, %d packages\n", w.what, functions, len(files), len(packages))
	}
	return nil
}

// calls returns how often nsrun plan calls each function, "file line name", for a manifest.
func calls(dir, bin string, manifest map[string]any) (map[string]int, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	file, cover := filepath.Join(dir, "m.json"), filepath.Join(dir, "cover")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(cover); err != nil {
		return nil, err
	}
	if err := os.Mkdir(cover, 0o755); err != nil {
		return nil, err
	}
	plan := exec.Command(bin, "plan", "--manifest", file, "--syscalls", "--", "true")
	plan.Env = append(os.Environ(), "GOCOVERDIR="+cover, "HOME="+dir)
	if out, err := plan.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("nsrun plan: %w\n%s", err, out)
	}
	text := filepath.Join(dir, "cover.txt")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+cover, "-o="+text).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go tool covdata: %w\n%s", err, out)
	}
	return entries(text)
}

var (
	block    = regexp.MustCompile(`^(.+\.go):(\d+)\.\d+,\S+ \d+ (\d+)$`)
	function = regexp.MustCompile(`^func (\([^)]*\) )?(\w+)`)
)

// entries reads how often the first block of each function was run.
func entries(text string) (map[string]int, error) {
	data, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	counts, first := map[string]int{}, map[string]int{}
	functions := map[string]map[int]string{}
	for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
		m := block.FindStringSubmatch(scan.Text())
		if m == nil {
			continue
		}
		file := strings.TrimPrefix(m[1], module)
		if functions[file] == nil {
			if functions[file], err = functionsOf(file); err != nil {
				return nil, err
			}
		}
		line, _ := strconv.Atoi(m[2])
		n, _ := strconv.Atoi(m[3])
		start := line
		for start > 0 && functions[file][start] == "" {
			start--
		}
		f := fmt.Sprintf("%s %d %s", file, start, functions[file][start])
		if at, seen := first[f]; !seen || line < at {
			first[f], counts[f] = line, n
		}
	}
	return counts, nil
}

// functionsOf returns the functions of a file, by their first lines.
func functionsOf(file string) (map[int]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := map[int]string{}
	for i, line := range strings.Split(string(data), "\n") {
		if m := function.FindStringSubmatch(line); m != nil {
			all[i+1] = m[1] + m[2]
		}
	}
	return all, nil
}
