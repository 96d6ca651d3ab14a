package clients_test

import "fmt"

// opamPackage is built and installed by a package manager that lets it write to its own directory, then to the prefix, and nowhere else.
const opamPackage = `opam-version: "2.0"
synopsis: "probe"
maintainer: "nobody"
build: [["sh" "-c" "echo built > verdict; (echo x > {DIR}/outside) 2>/dev/null; (echo x > %{prefix}%/outside) 2>/dev/null; grep -c : /proc/net/dev >> verdict; echo $TMPDIR >> verdict"]]
install: [["mkdir" "-p" "%{prefix}%/share"] ["cp" "verdict" "%{prefix}%/share/verdict"]]
remove: [["sh" "-c" "echo removed > %{prefix}%/removed; (echo x > {DIR}/outside) 2>/dev/null || true"]]
`

var opamFacts = facts{
	"init": "0", "switch": "0", "install": "0",
	"verdict": "built\n1\n/opam-tmp\n", // one line of /proc/net/dev: lo
	"outside": "(none)", "outside, in the prefix": "(none)",
	"remove": "0", "removed": "removed\n",
}

// opam makes a root, in which it tries its sandbox, and installs and removes a package of a local repository.
func opam(j *job) (facts, error) {
	if err := j.lay(map[string]string{"repo/repo": `opam-version: "2.0"` + "\n", "repo/packages/probe/probe.1/opam": opamPackage}); err != nil {
		return nil, err
	}
	f := facts{}
	for _, step := range []struct {
		name  string
		words []string
	}{
		{"init", []string{"init", "--bare", "--no-setup", "--no-opamrc", "--kind=local", "here", "{DIR}/repo"}},
		{"switch", []string{"switch", "create", "s", "--empty"}},
		{"install", []string{"install", "probe"}},
		{"remove", []string{"remove", "probe"}},
	} {
		r, err := j.run("", append([]string{"opam", "--yes"}, step.words...)...)
		if err != nil {
			return nil, err
		}
		f[step.name] = fmt.Sprint(r.exit)
		if r.exit != 0 {
			f[step.name] += ": " + r.stdout + r.stderr
		}
		if step.name == "install" {
			f["verdict"] = j.read("home/.opam/s/share/verdict")
		}
	}
	f["outside"], f["outside, in the prefix"] = j.read("outside"), j.read("home/.opam/s/outside")
	f["removed"] = j.read("home/.opam/s/removed")
	return f, nil
}

const playbook = `- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - shell: "cat {DIR}/hidden/secret; cat {DIR}/shown/file; echo x > {DIR}/shown/new; echo x > /usr/nsrun-evil; ls {DIR}; cat /proc/1/comm"
      register: tried
    - copy: {content: "{{ (tried.stdout_lines + tried.stderr_lines) | join('\n') }}", dest: "{{ playbook_dir }}/verdict"}
`

var ansibleFacts = facts{
	"exit": "0",
	"verdict": "shown\nhidden\nhome\nprivate\nshown\nbwrap\n" +
		"cat: {DIR}/hidden/secret: No such file or directory\n" +
		"/bin/sh: 1: cannot create {DIR}/shown/new: Read-only file system\n" +
		"/bin/sh: 1: cannot create /usr/nsrun-evil: Read-only file system",
	"secret": "secret\n", "new": "(none)",
}

// ansible has ansible-runner play a playbook on this host with some directories hidden, and some shown read-only.
func ansible(j *job) (facts, error) {
	err := j.lay(map[string]string{
		"private/project/play.yml": playbook,
		"private/inventory/hosts":  "localhost ansible_python_interpreter=/usr/bin/python3\n",
		"hidden/secret":            "secret\n",
		"shown/file":               "shown\n",
	})
	if err != nil {
		return nil, err
	}
	r, err := j.run("", "PYTHONPATH={FETCHED}/ansible-runner/usr/lib/python3/dist-packages", "python3", "{FETCHED}/ansible-runner/usr/bin/ansible-runner",
		"run", "{DIR}/private", "-p", "play.yml", "--process-isolation", "--process-isolation-executable", "bwrap",
		"--process-isolation-hide-paths", "{DIR}/hidden", "--process-isolation-ro-paths", "{FETCHED}/ansible-runner", "{DIR}/shown")
	if err != nil {
		return nil, err
	}
	f := facts{"exit": fmt.Sprint(r.exit), "verdict": j.blank(j.read("private/project/verdict")), "secret": j.read("hidden/secret"), "new": j.read("shown/new")}
	if r.exit != 0 {
		f["exit"] += ": " + r.stdout + r.stderr
	}
	return f, nil
}
