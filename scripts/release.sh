#!/bin/bash
# Builds nsrun for a release: one static program for each architecture, with the network helper appended. The same sources and compiler give the
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
build() { # OUTPUT PACKAGE FLAG...: FLAGs are the linker's
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version ${*:3}" -o "$1" "$2"
}
# Where the helper's text begins, behind 4 KiB of headers: above nsrun.
text=0x20001000
page=65536 # the largest there is
for arch in amd64 arm64; do
  program=$out/nsrun-$version-linux-$arch
  build "$program" ./cmd/nsrun
  build "$work/nsrun-helper" ./cmd/nsrun-helper -T "$text"
  # See internal/sys/entry/appended_unsafe_linux.go.
  at=$((($(stat -c %s "$program") + page - 1) / page * page))
  truncate -s "$at" "$program"
  { cat "$work/nsrun-helper" && printf '\nnsrun-helper at %016x\n' "$at"; } >>"$program"
done
