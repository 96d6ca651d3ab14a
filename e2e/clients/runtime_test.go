package clients_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
)

// srtCommands are tried in the sandbox that srtConfig describes.
var srtCommands = map[string]string{
	"read":         "cat {DIR}/file",
	"read secret":  "cat {DIR}/secret",
	"write":        "echo written >{DIR}/out/file && cat {DIR}/out/file",
	"write beside": "echo x >{DIR}/file",
	"write denied": "echo x >{DIR}/out/kept",
	"write hooks":  "mkdir -p {DIR}/out/.git && echo x >{DIR}/out/.git/config",
	"exit":         "exit 7",
	"killed":       "kill -9 $$",
	"processes":    "test -e /proc/{PID}",
	"connect":      "exec 3<>/dev/tcp/127.0.0.1/{PORT}",
	"fetch":        "curl --noproxy '' -sS -m 9 http://localhost:{PORT}/",
	"fetch denied": "curl --noproxy '' -sS -m 9 http://forbidden.invalid/",
	"unix socket":  "python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>&1 | tail -n 1",
	"namespace":    "unshare --user true",
}

var srtFacts = facts{
	"read":         "0 plain\n",
	"read secret":  "1 cat: {DIR}/secret: Permission denied\n",
	"write":        "0 written\n",
	"write beside": "1 /usr/bin/bash: line 1: {DIR}/file: Read-only file system\n",
	"write denied": "1 /usr/bin/bash: line 1: {DIR}/out/kept: Read-only file system\n",
	"write hooks":  "1 /usr/bin/bash: line 1: {DIR}/out/.git/config: Read-only file system\n",
	"exit":         "7 ",
	"killed":       "137 ",
	"processes":    "1 ",
	"connect":      "1 /usr/bin/bash: connect: Connection refused\n/usr/bin/bash: line 1: /dev/tcp/127.0.0.1/{PORT}: Connection refused\n",
	"fetch":        "0 from the host\n", // by a proxy of the runtime, which reaches in by a socket
	"fetch denied": "0 Connection blocked by network allowlist\n",
	"unix socket":  "0 PermissionError: [Errno 1] Operation not permitted\n", // by its seccomp filter
	"namespace":    "1 unshare: unshare failed: Operation not permitted\n",
	"on the host":  "plain\n, written\n, kept\n",
}

func srt(j *job) (facts, error) {
	return j.runtime(srtConfig(j, ""), srtCommands)
}

// many is how many more files the long profile denies: too many for one word of a command line.
const many = 500

var srtLongFacts = facts{
	"read denied": "1 cat: {DIR}/many/0499-" + longName + ": Permission denied\n",
	"write":       "0 written\n",
	"on the host": "plain\n, written\n, kept\n",
}

var longName = strings.Repeat("secret", 40)

// srtLong makes the runtime hand its profile over by descriptor 9, and names the binary by its path, as agents that ship one do.
func srtLong(j *job) (facts, error) {
	files := map[string]string{}
	var denied []string
	for i := range many {
		name := fmt.Sprintf("many/%04d-%s", i, longName)
		files[name] = "x"
		denied = append(denied, j.path(name))
	}
	if err := j.lay(files); err != nil {
		return nil, err
	}
	return j.runtime(srtConfig(j, j.path("shim/bwrap"), denied...), map[string]string{
		"read denied": "cat {DIR}/many/0499-" + longName,
		"write":       srtCommands["write"],
	})
}

func srtConfig(j *job, bwrap string, denied ...string) map[string]any {
	config := map[string]any{
		"network": map[string]any{"allowedDomains": []string{"localhost"}, "deniedDomains": []string{}},
		"filesystem": map[string]any{
			"denyRead":   append([]string{j.path("secret")}, denied...),
			"allowWrite": []string{j.path("out")},
			"denyWrite":  []string{j.path("out/kept")},
		},
	}
	if bwrap != "" {
		config["bwrapPath"] = bwrap
	}
	return config
}

// runtime runs the commands while a server on the host's loopback waits for them.
func (j *job) runtime(config map[string]any, commands map[string]string) (facts, error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "from the host") }))
	defer server.Close()
	where, err := url.Parse(server.URL)
	if err != nil {
		return nil, err
	}
	if err := j.lay(map[string]string{"file": "plain\n", "secret": "secret\n", "out/kept": "kept\n", "out/.git/config": "kept\n"}); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"config": config, "commands": commands})
	if err != nil {
		return nil, err
	}
	input := strings.NewReplacer("{PORT}", where.Port(), "{PID}", fmt.Sprint(os.Getpid())).Replace(j.fill(string(text)))
	r, err := j.run(input, "node", "{ROOM}/testdata/srt.mjs", "{FETCHED}/srt/node_modules/@anthropic-ai/sandbox-runtime/dist/index.js")
	if err != nil {
		return nil, err
	}
	var results map[string]struct {
		Code           *int
		Stdout, Stderr string
	}
	if err := json.Unmarshal([]byte(r.stdout), &results); err != nil {
		return nil, fmt.Errorf("%+v: %w", r, err)
	}
	f := facts{"on the host": j.read("file") + ", " + j.read("out/file") + ", " + j.read("out/kept")}
	for name, x := range results {
		if x.Code == nil {
			return nil, fmt.Errorf("%s: ended by a signal: %+v", name, x)
		}
		f[name] = strings.ReplaceAll(fmt.Sprint(*x.Code, " ", x.Stdout, x.Stderr), where.Port(), "{PORT}")
	}
	return f, nil
}
