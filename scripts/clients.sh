#!/bin/bash
# Installs the programs that e2e/clients runs with nsrun as their bwrap, and prints the directory of those that are no packages here:
#
#   scripts/clients.sh [DIR]   by default /var/cache/nsrun-clients for root, else that one if it is there, else nsrun-clients in the user's cache
#
# DIR/ansible-runner is unpacked, not installed: its package depends on all of ansible (260 MB), of which it needs ansible-core. DIR/srt is
# @anthropic-ai/sandbox-runtime. Only root can install packages; for others this says which are missing.
set -euo pipefail
packages=(
  bubblewrap mat2 opam libgdk-pixbuf2.0-bin gir1.2-gnomedesktop-3.0 python3-gi socat ripgrep curl
  ansible-core python3-pexpect python3-daemon python3-six python3-yaml python3-packaging python3-distutils
)
srt=@anthropic-ai/sandbox-runtime
version=0.0.83

die() { echo "clients.sh: $*" >&2; exit 1; }

default_dir() {
  local system=/var/cache/nsrun-clients
  if [ "$(id -u)" = 0 ] || complete "$system"; then
    echo "$system"
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/nsrun-clients"
  fi
}

has_runner() { [ -r "$1/ansible-runner/usr/bin/ansible-runner" ]; }
has_srt() { grep -q "\"version\": \"$version\"" "$1/srt/node_modules/$srt/package.json" 2>/dev/null; }
complete() { has_runner "$1" && has_srt "$1"; }

missing() {
  local p
  for p in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null)" = "install ok installed" ] || echo "$p"
  done
  command -v node >/dev/null || echo nodejs
  command -v npm >/dev/null || has_srt "$dir" || echo npm
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >&2; }

install_packages() {
  [ "$(id -u)" = 0 ] || die "missing packages: $* (root can install them)"
  # Old lists name files that a mirror no longer has: then they are fetched anew, once.
  apt install -y --no-install-recommends "$@" || { apt update && apt install -y --no-install-recommends "$@"; }
}

fetch_runner() {
  # As root, apt downloads as a user of its own, who has to be able to write here.
  mkdir "$work/deb"
  chmod a+rx "$work" && chmod a+rwx "$work/deb"
  (cd "$work/deb" && { apt download python3-ansible-runner || { apt update && apt download python3-ansible-runner; }; })
  dpkg-deb -x "$work"/deb/*.deb "$work/ansible-runner"
}

fetch_srt() {
  mkdir "$work/srt"
  npm install --prefix "$work/srt" --ignore-scripts --no-audit --no-fund --loglevel=error "$srt@$version" >&2
}

# put moves what was fetched to where it is looked for, whole.
put() {
  chmod -R a+rX "$work/$1"
  rm -rf "${dir:?}/$1"
  mv "$work/$1" "$dir/$1"
}

umask 022
for tool in apt-get dpkg-deb; do
  command -v "$tool" >/dev/null || die "$tool is needed"
done
dir=${1:-$(default_dir)}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
mapfile -t list < <(missing)
[ "${#list[@]}" = 0 ] || install_packages "${list[@]}"
if ! complete "$dir"; then
  work=$(mktemp -d "$dir/new.XXXXXX") # on the same file system, so that put is one rename
  trap 'rm -rf "$work"' EXIT
  has_runner "$dir" || { fetch_runner && put ansible-runner; }
  has_srt "$dir" || { fetch_srt && put srt; }
  complete "$dir" || die "$dir lacks what was fetched"
fi
echo "$dir"
