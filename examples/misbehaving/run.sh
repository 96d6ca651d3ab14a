#!/bin/sh
# Runs each tool, or those that are named, under the same manifest and prints how it ended.
set -eu
cd "$(dirname "$0")"
nsrun=${NSRUN:-nsrun}
command -v "$nsrun" >/dev/null || { echo "run.sh: put nsrun on PATH, or name it by NSRUN" >&2; exit 1; }
result=$(mktemp)
trap 'rm -f "$result"' EXIT
trap 'exit 1' HUP INT TERM
[ $# -gt 0 ] || set -- *.py
for tool; do
  # The reader of the pipe waits until nobody holds it open any more.
  "$nsrun" run --manifest manifest.json --result "$result" -- python3 "$tool" </dev/null 2>&1 | cat >/dev/null
  printf '%-20s%s\n' "$tool" "$(sed 's/.*"verdict":"\([^"]*\)".*/\1/' "$result")"
done
