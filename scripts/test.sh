#!/bin/sh
# Runs the checks and tests. scripts/test.sh --help lists the tiers; CONTRIBUTING.md says what each takes.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/go/bin"
export PATH
command -v go >/dev/null || { echo "test.sh: Go 1.26 or newer is needed: https://go.dev/doc/install" >&2; exit 1; }
# Not by go run, which signals do not reach. A run that is under way keeps its own file.
mkdir -p bin
CGO_ENABLED=0 go build -o "bin/runtests.$$" ./scripts/runtests
mv -f "bin/runtests.$$" bin/runtests
exec bin/runtests "$@"
