#!/bin/sh
# A conductor in small: makes the directories of an agent, starts its servers, runs it, and ends all of it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nsrun=${NSRUN:-nsrun}
command -v "$nsrun" >/dev/null || { echo "run.sh: put nsrun on PATH, or name it by NSRUN" >&2; exit 1; }
home=$(mktemp -d)
server=
end() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || : # it may have ended by itself
    wait "$server" 2>/dev/null || :
  fi
  rm -rf "$home"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

mkdir -p "$home/agents/writer" "$home/agents/shared" "$home/agents/mcp"
mkfifo "$home/ready"
python3 "$here/server.py" "$home/agents/mcp/notes.sock" "$home/agents/mcp/payroll.sock" >"$home/ready" &
server=$!
read -r _ <"$home/ready" # it listens, or it has ended

agent() {
  HOME=$home "$nsrun" run --manifest "$here/manifest.yaml" --result "$home/result.json" -- python3 "$here/agent.py" "$@" </dev/null || :
  echo "verdict:    $(sed 's/.*"verdict":"\([^"]*\)".*/\1/' "$home/result.json")"
}
agent
echo
agent greedy
