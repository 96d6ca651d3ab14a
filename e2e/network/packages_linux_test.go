package network

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// packageText is what each registry's package prints when it is used.
const packageText = "installed from the registry"

// content is a file of a registry: its text and its type.
type content struct {
	text []byte
	kind string
}

// files serves files by path, and answers POST with an empty object: npm sends the list of what it installs, and asks what is known to be unsafe.
type files map[string]content

func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := f[r.URL.Path]
	switch {
	case r.Method == http.MethodPost:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", file.kind)
		_, _ = w.Write(file.text)
	}
}

// makeRegistries makes a registry of each kind, with one package each, by host.
func makeRegistries() (map[string]http.Handler, error) {
	npm, err1 := npmRegistry()
	pypi, err2 := pypiRegistry()
	proxy, err3 := moduleProxy()
	return map[string]http.Handler{"npm.test": npm, "pypi.test": pypi, "goproxy.test": proxy}, errors.Join(err1, err2, err3)
}

// npmRegistry has a package document and a tarball, as https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md describes them.
func npmRegistry() (files, error) {
	var tarball bytes.Buffer
	zipped := gzip.NewWriter(&tarball)
	out := tar.NewWriter(zipped)
	for _, f := range [][2]string{{"package/package.json", `{"name": "nsrun-tiny", "version": "1.0.0", "main": "index.js"}`}, {"package/index.js", "module.exports = '" + packageText + "'\n"}} {
		err := out.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), ModTime: time.Unix(5e8, 0)})
		if err != nil {
			return nil, err
		}
		if _, err := out.Write([]byte(f[1])); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(out.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	const path = "/nsrun-tiny/-/nsrun-tiny-1.0.0.tgz"
	short, long := sha1.Sum(tarball.Bytes()), sha512.Sum512(tarball.Bytes())
	document, err := json.Marshal(map[string]any{"name": "nsrun-tiny", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": map[string]any{
		"name": "nsrun-tiny", "version": "1.0.0", "main": "index.js",
		"dist": map[string]string{"tarball": "https://npm.test" + path, "shasum": fmt.Sprintf("%x", short), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(long[:])},
	}}})
	return files{"/nsrun-tiny": {document, "application/json"}, path: {tarball.Bytes(), "application/octet-stream"}}, err
}

// zipOf is a zip archive of files, each a path and its text.
func zipOf(list ...[2]string) ([]byte, error) {
	var buf bytes.Buffer
	out := zip.NewWriter(&buf)
	for _, f := range list {
		w, err := out.Create(f[0])
		if err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			return nil, err
		}
	}
	err := out.Close()
	return buf.Bytes(), err
}

// pypiRegistry has a simple index (PEP 503) and a wheel (PEP 427).
func pypiRegistry() (files, error) {
	const info = "nsrun_tiny-1.0.0.dist-info/"
	wheel, err := zipOf([2]string{"nsrun_tiny.py", "text = '" + packageText + "'\n"},
		[2]string{info + "METADATA", "Metadata-Version: 2.1\nName: nsrun-tiny\nVersion: 1.0.0\n"},
		[2]string{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		[2]string{info + "RECORD", "nsrun_tiny.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"})
	const path = "/files/nsrun_tiny-1.0.0-py3-none-any.whl"
	index := fmt.Sprintf("<!DOCTYPE html><html><body><a href=\"../..%s#sha256=%x\">nsrun_tiny-1.0.0-py3-none-any.whl</a></body></html>\n", path, sha256.Sum256(wheel))
	return files{"/simple/nsrun-tiny/": {[]byte(index), "text/html"}, path: {wheel, "application/zip"}}, err
}

// moduleProxy has one version of a module: https://go.dev/ref/mod#goproxy-protocol.
func moduleProxy() (files, error) {
	const at, mod = "/nsrun.test/tiny/@v/", "module nsrun.test/tiny\n\ngo 1.21\n"
	module, err := zipOf([2]string{"nsrun.test/tiny@v1.0.0/go.mod", mod}, [2]string{"nsrun.test/tiny@v1.0.0/tiny.go", "package tiny\n\nconst Text = \"" + packageText + "\"\n"})
	info := content{[]byte(`{"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}`), "application/json"}
	return files{at + "list": {[]byte("v1.0.0\n"), "text/plain"}, at + "v1.0.0.info": info, "/nsrun.test/tiny/@latest": info,
		at + "v1.0.0.mod": {[]byte(mod), "text/plain"}, at + "v1.0.0.zip": {module, "application/zip"}}, err
}
