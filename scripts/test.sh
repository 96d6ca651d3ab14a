#!/bin/sh
# Runs the checks and tests. scripts/test.sh --help lists the tiers; README and CONTRIBUTING.md say what each takes.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/go/bin"
export PATH
command -v go >/dev/null || { echo "test.sh: Go 1.26 or newer is needed: https://go.dev/doc/install" >&2; exit 1; }
exec go run ./scripts/runtests "$@"
