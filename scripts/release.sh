#!/bin/bash
# Builds nsrun for a release: one static program for each architecture, with the network helper in it. The same sources and compiler give the
# same bytes.
#
#   scripts/release.sh OUT VERSION   makes OUT/nsrun-VERSION-linux-amd64 and OUT/nsrun-VERSION-linux-arm64
set -euo pipefail
if [ $# -ne 2 ] || [ -z "$1" ] || [ -z "$2" ]; then
  echo "usage: scripts/release.sh OUT VERSION" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd) version=$2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version")
for arch in amd64 arm64; do
  export CGO_ENABLED=0 GOOS=linux GOARCH=$arch
  go build "${flags[@]}" -o "$work/nsrun-helper" ./cmd/nsrun-helper
  # The helper is embedded from where it was built: nothing is written into the sources.
  printf '{"Replace": {"%s": "%s"}}\n' "$PWD/cmd/nsrun/nsrun-helper" "$work/nsrun-helper" >"$work/overlay.json"
  go build "${flags[@]}" -tags release -overlay "$work/overlay.json" -o "$out/nsrun-$version-linux-$arch" ./cmd/nsrun
done
