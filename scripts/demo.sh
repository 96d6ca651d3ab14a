#!/bin/sh
# Builds nsrun and runs the example in examples/notes: an executor that does what its manifest grants, and fails at the rest.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/go/bin"
export PATH
command -v go >/dev/null || { echo "demo: Go 1.26 or newer is needed: https://go.dev/doc/install" >&2; exit 1; }
echo "building bin/nsrun; the first build fetches three modules and compiles Go's own library: up to two minutes"
CGO_ENABLED=0 go build -o bin/nsrun ./cmd/nsrun
EXAMPLE_API_KEY=s3cret
export EXAMPLE_API_KEY
echo "\$ bin/nsrun run --manifest examples/notes/manifest.json -- ./executor.sh"
bin/nsrun run --manifest examples/notes/manifest.json -- ./executor.sh
echo "\$ cat examples/notes/work/result.json"
cat examples/notes/work/result.json
