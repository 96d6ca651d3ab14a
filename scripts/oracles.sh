#!/bin/bash
# Fetches newer bubblewraps to compare with, and prints the directory that holds them: DIR/trixie/bwrap and DIR/sid/bwrap. Each runs
# with its own suite's C library, unpacked beside it. The machine's apt is left alone; its mirror is asked, under a private
# configuration.
#
#   scripts/oracles.sh [DIR]   DIR: $NSRUN_ORACLES, else nsrun-oracles in the user's cache directory
set -euo pipefail
dir=${1:-${NSRUN_ORACLES:-${XDG_CACHE_HOME:-$HOME/.cache}/nsrun-oracles}}
suites="trixie sid"
packages="bubblewrap libc6 libcap2 libselinux1 libpcre2-8-0"

die() { echo "oracles.sh: $*" >&2; exit 1; }

# complete says whether every oracle is there and runs.
complete() {
  local suite
  for suite in $suites; do
    "$dir/$suite/bwrap" --version >/dev/null 2>&1 || return 1
  done
}

# mirror prints the first archive that the machine itself uses, security archives aside.
mirror() {
  local list=()
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && list+=("$file")
  done
  [ ${#list[@]} -gt 0 ] || return 1
  sed -nE 's/^(URIs:|deb( \[[^]]*\])?)[[:space:]]+([a-z]+:[^[:space:]]*\/debian\/?)([[:space:]].*)?$/\3/p' "${list[@]}" | head -n 1
}

# configure writes the private configuration and its sources.
configure() {
  local uri=$1 suite
  mkdir -p "$work"/{state/lists/partial,cache/archives/partial,parts}
  for suite in $suites "$own"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
  done >"$work/sources.list"
  cat >"$work/apt.conf" <<END
Dir::State "$work/state";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "$work/parts";
Dir::Etc::preferencesparts "$work/parts";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
END
}

# unpack fetches packages of one suite into a tree.
unpack() {
  local suite=$1 tree=$2 deb
  shift 2
  mkdir -p "$work/debs/$suite" "$tree"
  (cd "$work/debs/$suite" && apt-get download -q "${@/%//$suite}" >&2)
  for deb in "$work/debs/$suite"/*.deb; do
    dpkg-deb -x "$deb" "$tree"
  done
}

# assemble makes one oracle of a suite's packages. Only what runs is kept. The loader and the libraries are found by absolute path,
# therefore it happens in place.
assemble() {
  local suite=$1 tree=$work/tree/$1 to=$dir/$1 loader lib
  # shellcheck disable=SC2086 # a list of words
  unpack "$suite" "$tree" $packages
  rm -rf "$to"
  mkdir -p "$to/lib"
  for lib in libc.so.6 libcap.so.2 libselinux.so.1 libpcre2-8.so.0; do
    cp -L "$(find "$tree" -name "$lib" | head -n 1)" "$to/lib/$lib"
  done
  loader=$(find "$tree" -name 'ld-linux*.so.*' | head -n 1)
  cp -L "$loader" "$to/lib/"
  cp "$tree/usr/bin/bwrap" "$to/bwrap.new"
  "$patchelf" --set-interpreter "$to/lib/$(basename "$loader")" --force-rpath --set-rpath "$to/lib" "$to/bwrap.new"
  chmod -R a+rX "$to"
  mv "$to/bwrap.new" "$to/bwrap"
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if complete; then
  echo "$dir"
  exit
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "apt-get and dpkg-deb are needed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
own=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
uri=$(mirror)
[ -n "$uri" ] || die "no mirror of Debian in the apt sources of this machine"
configure "$uri"
export APT_CONFIG=$work/apt.conf
apt-get update -q >&2
patchelf=$(command -v patchelf || true)
if [ -z "$patchelf" ]; then
  unpack "$own" "$work/tree/tools" patchelf
  patchelf=$work/tree/tools/usr/bin/patchelf
fi
chmod a+rx "$dir"
for suite in $suites; do assemble "$suite"; done
complete || die "the oracles do not run"
echo "$dir"
