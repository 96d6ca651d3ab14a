#!/bin/bash
# An executor as agent runtimes have them: reads the notes it was granted, writes its result into its work directory, and then
# tries what it was not granted. It exits with 1 if any of that succeeds.
cd "$(dirname "$0")" || exit 1
open=$(grep -h "^- \[ \]" notes/*.md | wc -l)
printf '{"notes": %d, "open": %d}\n' "$(ls notes/*.md | wc -l)" "$open" > work/result.json || exit 1
echo "granted:  read $(ls notes/*.md | wc -l) notes, wrote $PWD/work/result.json"

escaped=0
refused() { # what, command...
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "ESCAPED:  $what"
    escaped=1
  else
    echo "refused:  $what (${said##*: })"
  fi
}
refused "read the home directory" cat "$HOME/.bashrc"
refused "write beside the code" touch executor.new
refused "change a note" sh -c 'echo x >> notes/monday.md'
refused "connect to the network" timeout 3 bash -c ': < /dev/tcp/192.0.2.1/80'
refused "see a secret variable" sh -c '[ -n "$EXAMPLE_API_KEY" ] || { echo "EXAMPLE_API_KEY: not set" >&2; exit 1; }'
refused "see the host's processes" sh -c '[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 8 ] || { echo "only its own: /proc" >&2; exit 1; }'
exit $escaped
