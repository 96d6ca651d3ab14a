package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

// checks are the stages that look at the source and the builds.
func (r *runner) checks() []stage {
	testdata := make([]string, 0, len(testPrograms))
	for _, p := range testPrograms {
		testdata = append(testdata, "./"+p)
	}
	return []stage{
		{name: "format", tier: quick, seconds: 1, run: r.format},
		{name: "vet", tier: quick, seconds: 20, run: r.commands(nil, slices.Concat([]string{"go", "vet", "./..."}, testdata))},
		{name: "vet for another system and processor", tier: fast, seconds: 40, run: func(ctx context.Context, log io.Writer) (tally, error) {
			return tally{}, errors.Join(r.builder.run(ctx, []string{"GOOS=darwin", "CGO_ENABLED=0"}, slices.Concat([]string{"go", "vet"}, portable)...),
				r.builder.run(ctx, []string{"GOARCH=arm64", "CGO_ENABLED=0"}, "go", "vet", "./..."))
		}},
		{name: "staticcheck", tier: fast, seconds: 60, run: r.commands(nil, []string{"go", "run", staticcheck, "./..."})},
		{name: "static binaries", tier: fast, seconds: 25, run: r.static},
	}
}

// rare are the stages of the tier all that are not one package's.
func (r *runner) rare() (list []stage) {
	list = []stage{
		{name: "generated files", tier: all, slice: 7, seconds: 30, packages: []string{"gcc", "libc6-dev", "libseccomp-dev"}, run: r.generated},
		{name: "the release", tier: all, slice: 7, seconds: 40, run: r.release},
		{name: "the build with libseccomp", tier: all, slice: 7, seconds: 30, packages: []string{"gcc", "libc6-dev", "libseccomp-dev"}, run: r.withLibseccomp},
		r.tests(job{dir: "seccomp", as: r.users[0], tier: all, how: libseccomp}, stage{tier: all, slice: 7, seconds: 15, packages: []string{"gcc", "libc6-dev", "libseccomp-dev"}}),
	}
	for _, dir := range pure {
		j := job{dir: strings.TrimPrefix(dir, "./"), as: r.users[0], tier: fast, how: arm64Native}
		list = append(list, r.tests(j, stage{tier: all, slice: 5, seconds: 20, packages: []string{"qemu-user-static"}}))
	}
	for _, g := range guests {
		j := job{dir: "e2e", as: r.users[0], tier: fast, only: "^TestVM$/" + g.pattern, args: []string{"-test.parallel=1"}}
		s := r.tests(j, stage{tier: all, slice: g.slice, seconds: g.seconds, packages: strings.Fields(machines + " dbus-daemon")})
		s.name, s.inputs = "machines: "+g.name, inputs{}
		list = append(list, s)
	}
	return list
}

// commands is a stage of commands that must succeed.
func (r *runner) commands(env []string, commands ...[]string) func(context.Context, io.Writer) (tally, error) {
	return func(ctx context.Context, _ io.Writer) (tally, error) {
		for _, c := range commands {
			if err := r.builder.run(ctx, env, c...); err != nil {
				return tally{}, err
			}
		}
		return tally{}, nil
	}
}

// output returns what a command prints on standard output.
func (r *runner) output(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (r *runner) format(ctx context.Context, _ io.Writer) (tally, error) {
	out, err := r.output(ctx, nil, "gofmt", "-l", ".")
	if err == nil && out != "" {
		err = fmt.Errorf("gofmt -w would change:\n%s", out)
	}
	return tally{}, err
}

// static builds what is released, and looks whether it needs a loader.
func (r *runner) static(ctx context.Context, _ io.Writer) (tally, error) {
	for _, arch := range []string{"amd64", "arm64"} {
		name := filepath.Join(r.builder.out, "nsrun-"+arch)
		if err := r.builder.run(ctx, []string{"GOARCH=" + arch, "CGO_ENABLED=0"}, "go", "build", "-o", name, "./cmd/nsrun"); err != nil {
			return tally{}, err
		}
		if err := needsNoLoader(name); err != nil {
			return tally{}, err
		}
	}
	return tally{}, nil
}

// generated runs go generate in a copy of the tree and compares: the tree itself is the contributor's.
func (r *runner) generated(ctx context.Context, _ io.Writer) (tally, error) {
	dir, err := os.MkdirTemp("/var/tmp", "nsrun-generate-")
	if err != nil {
		return tally{}, err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(ctx, r.root, dir); err != nil {
		return tally{}, err
	}
	if err := newBuilder(dir, r.builder.out).run(ctx, nil, "go", "generate", "./..."); err != nil {
		return tally{}, err
	}
	names, err := treeFiles(ctx, r.root)
	for _, name := range names {
		was, wasErr := hashFile(filepath.Join(r.root, name))
		is, isErr := hashFile(filepath.Join(dir, name))
		err = errors.Join(err, wasErr, isErr)
		if was != is {
			err = errors.Join(err, fmt.Errorf("go generate changes %s: run it and commit the result", name))
		}
	}
	return tally{}, err
}

// withLibseccomp builds nsrun with the C library and tries a profile that only this build reads, and the filter that it makes of it.
func (r *runner) withLibseccomp(ctx context.Context, _ io.Writer) (tally, error) {
	cgo := []string{"CGO_ENABLED=1"}
	nsrun, profile, filter := filepath.Join(r.builder.out, "nsrun-libseccomp"), filepath.Join(r.builder.out, "profile.json"), filepath.Join(r.builder.out, "profile.bpf")
	const text = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}`
	err := errors.Join(os.WriteFile(profile, []byte(text), 0o644),
		r.builder.run(ctx, cgo, "go", "vet", "-tags", "libseccomp", "./..."),
		r.builder.run(ctx, cgo, "go", "build", "-tags", "libseccomp,osusergo,netgo", "-ldflags", "-linkmode external -extldflags -static", "-o", nsrun, "./cmd/nsrun"))
	if err == nil {
		err = errors.Join(needsNoLoader(nsrun), r.builder.run(ctx, nil, nsrun, "seccomp", "compile", "-o", filter, profile))
	}
	programs, buildErr := r.programs(ctx)
	if err = errors.Join(err, buildErr); err != nil {
		return tally{}, err
	}
	for _, words := range [][]string{{nsrun, "run", "--fallback", "degrade", "--seccomp", profile}, {filepath.Join(programs, "cmd/nsrun"), "run", "--fallback", "degrade", "--seccomp", filter}} {
		if err := r.builder.run(ctx, nil, slices.Concat(words, []string{"--", "true"})...); err != nil {
			return tally{}, err
		}
		if err := r.builder.run(ctx, nil, slices.Concat(words, []string{"--", "mkdir", "/tmp/x"})...); err == nil {
			return tally{}, fmt.Errorf("%s: mkdir succeeds although the profile refuses it", strings.Join(words, " "))
		}
	}
	return tally{}, nil
}

// release builds the programs of a release and has the one of this machine serve a network alone, which nsrun without a helper cannot.
func (r *runner) release(ctx context.Context, _ io.Writer) (tally, error) {
	const version = "0.0.0-test"
	dir := filepath.Join(r.builder.out, "release")
	if err := r.builder.run(ctx, nil, "scripts/release.sh", dir, version); err != nil {
		return tally{}, err
	}
	alone := filepath.Join(r.builder.out, "without-helper", "nsrun")
	programs, err := r.programs(ctx)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(alone), 0o755)
	}
	if err == nil {
		err = r.builder.run(ctx, nil, "cp", filepath.Join(programs, "cmd/nsrun"), alone)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		name := filepath.Join(dir, "nsrun-"+version+"-linux-"+arch)
		err = errors.Join(err, needsNoLoader(name))
		if arch == runtime.GOARCH {
			err = errors.Join(err, r.builder.run(ctx, nil, name, "run", "--net", "allow:example.com", "--", "true"))
		}
	}
	if err != nil {
		return tally{}, err
	}
	if err := r.builder.run(ctx, nil, alone, "run", "--net", "allow:example.com", "--", "true"); err == nil {
		return tally{}, errors.New("nsrun has a network helper that nobody has put there")
	}
	return tally{}, nil
}
