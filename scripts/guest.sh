#!/bin/sh
# Makes a machine with Debian, Ubuntu, Alpine or Fedora ready for nsrun's tests, and runs them there. Vagrantfile uses it; so can you.
#
#   sudo scripts/guest.sh setup        installs what the tests need, and Go
#        scripts/guest.sh setup --dry-run [--os-release FILE]    prints the commands, for this machine or for the one FILE is of
#        scripts/guest.sh go DIR       puts Go of go.mod's version, or a newer one, at DIR/go
#   sudo scripts/guest.sh test [USER]  runs the tests as root and as USER, by default who called sudo
#        scripts/guest.sh test         runs them as you
#
# On Debian and Ubuntu the tests are scripts/test.sh, elsewhere go test ./... . They run in a copy, which is removed afterwards.
set -eu
self=$0
repo=$(cd "$(dirname "$0")/.." && pwd)
releases="https://go.dev/dl"
list="$releases/?mode=json&include=all"
dry=
release=/etc/os-release
work= # a directory that is removed at the end
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
PATH=/usr/local/go/bin:$PATH
export PATH

die() { echo "guest.sh: $*" >&2; exit 1; }

usage() {
  echo "usage: guest.sh setup [--dry-run [--os-release FILE]] | go DIR | test [USER]" >&2
  exit 2
}

# run does a command, or prints it.
run() {
  if [ -n "$dry" ]; then echo "$*"; else "$@"; fi
}

# manager prints the package manager of this distribution, or of the nearest one that is known.
manager() {
  [ -r "$release" ] || die "$release cannot be read: give another one with --os-release FILE"
  for id in $(sed -n 's/^ID=//p; s/^ID_LIKE=//p' "$release" | tr -d "\"'"); do
    case $id in
    debian | ubuntu) echo apt && return ;;
    alpine) echo apk && return ;;
    fedora) echo dnf && return ;;
    esac
  done
  die "$release is of no distribution known here: install git, bubblewrap, gcc and Go $want by hand, then run go test ./..."
}

# install installs packages. The names for Debian are those of scripts/test.sh, and what this script needs.
install() {
  case $manager in
  apt) run env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@" ;;
  apk) run apk add --quiet --update-cache "$@" ||
    die "apk cannot install: enable the repository community in /etc/apk/repositories" ;;
  dnf) run dnf install -y --quiet "$@" ;;
  esac
}

packages() {
  case $manager in
  apt) echo ca-certificates curl git bash bubblewrap gcc libc6-dev libseccomp-dev python3 python3-pytest nodejs npm cargo make jq strace musl-tools openssh-client gpg gpg-agent \
    dbus-daemon docker.io podman crun bind9-dnsutils iproute2 mawk mount openjdk-17-jdk-headless openssl perl postgresql-client python3-pip redis-tools \
    sqlite3 wget ;;
  apk) echo ca-certificates curl git bash bubblewrap gcc musl-dev python3 nodejs docker podman crun ;;
  dnf) echo ca-certificates curl git tar bubblewrap gcc glibc-devel python3 nodejs moby-engine podman crun ;;
  esac
}

go_package() {
  case $manager in
  apt) echo golang-go ;;
  apk) echo go ;;
  dnf) echo golang ;;
  esac
}

# offered prints the version of Go that the distribution has, or nothing.
offered() {
  case $manager in
  apt) apt-cache policy golang-go | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p' ;;
  apk) apk search --exact go | sed -n 's/^go-\([0-9.]*\).*/\1/p' | tail -n 1 ;;
  dnf) LC_ALL=C dnf --quiet info golang 2>/dev/null | sed -n 's/^Version *: *\([0-9.]*\).*/\1/p' | tail -n 1 ;;
  esac
}

# version prints that of a go command, and does not let it fetch another one.
version() {
  (cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) | sed -n 's/^go\([0-9.]*\).*/\1/p'
}

# fits says whether a version is at least that of go.mod.
fits() {
  awk -v have="$1" -v want="$want" 'BEGIN {
    n = split(want, w, "."); split(have, h, ".")
    for (i = 1; i <= n; i++) if (h[i] + 0 != w[i] + 0) exit (h[i] + 0 < w[i] + 0)
  }'
}

# published prints the SHA-256 that go.dev's list has for a file.
published() {
  sed 's/[,{}]/\n/g' "$1" | awk -F '"' -v file="$2" '
    $2 == "filename" { found = ($4 == file) }
    $2 == "sha256" && found { print $4; exit }'
}

fetch() {
  run curl -fsSL --proto =https --retry 3 -o "$1" "$2" ||
    die "$2 cannot be fetched: let this machine reach go.dev, or put Go $want or newer on the PATH"
}

# fetch_go puts the official Go at DIR/go, once its checksum is right.
fetch_go() {
  dir=$1
  case $(uname -m) in
  x86_64) file=go$want.linux-amd64.tar.gz ;;
  aarch64) file=go$want.linux-arm64.tar.gz ;;
  *) die "no Go is fetched for $(uname -m): put Go $want or newer on the PATH" ;;
  esac
  if [ -n "$dry" ]; then
    fetch list "$list"
    fetch "$file" "$releases/$file"
    echo "# if the SHA-256 is that in list:"
    echo "tar -C $dir -xzf $file"
    return
  fi
  mkdir -p "$dir" || die "name a directory that can be made, or be root"
  work=$(mktemp -d "$dir/go.XXXXXX") || die "name a directory that can be written, or be root"
  fetch "$work/list" "$list"
  sum=$(published "$work/list" "$file")
  [ -n "$sum" ] || die "$list has no $file: is the version in go.mod one that was released?"
  fetch "$work/$file" "$releases/$file"
  echo "$sum  $work/$file" | sha256sum -c - >/dev/null 2>&1 ||
    die "$releases/$file does not have the SHA-256 $sum that go.dev publishes: try again, and do not use it"
  tar -C "$work" -xzf "$work/$file"
  fits "$(version "$work/go/bin/go")" || die "$file does not run here: put Go $want or newer on the PATH"
  [ ! -e "$dir/go" ] || mv "$dir/go" "$work/old"
  mv "$work/go" "$dir/go"
}

# ensure_go takes the installed Go, else the distribution's, else the official one, whichever is first new enough.
ensure_go() {
  package=$(go_package)
  if [ -n "$dry" ]; then
    echo "# unless Go $want or newer is there, and if $package is such a one:"
    install "$package"
    echo "# else:"
    fetch_go /usr/local
  elif fits "$(version go)"; then
    :
  elif fits "$(offered)"; then
    install "$package"
  else
    fetch_go /usr/local
  fi
}

setup() {
  [ -n "$dry" ] || [ "$(id -u)" = 0 ] || die "only root can install packages: sudo $self setup"
  manager=$(manager)
  [ "$manager" != apt ] || run apt-get update -qq
  # shellcheck disable=SC2046 # a list of words
  install $(packages)
  ensure_go
  [ -n "$dry" ] || echo "ready: Go $(version go); next: sudo $self test"
}

tests() {
  if [ "$manager" != apt ]; then
    go test -count=1 -timeout 20m ./...
  else
    scripts/test.sh
  fi
}

# suite runs the tests as whoever calls, in a copy that is theirs, with a git repository that has these files and no history.
suite() {
  echo "== $(id -un) on $(sed -n 's/^PRETTY_NAME=//p' "$release"), Linux $(uname -r)"
  work=$(mktemp -d /var/tmp/nsrun-guest.XXXXXX) || return 1
  result=0
  (cp -a "$repo/." "$work" && cd "$work" && rm -rf .git && chown -R "$(id -u):$(id -g)" . && chmod 755 . &&
    git -c init.defaultBranch=main init -q && git add -A && tests) || result=1
  rm -rf "$work"
  return $result
}

run_tests() {
  manager=$(manager)
  for tool in go git; do
    command -v $tool >/dev/null || die "there is no $tool: sudo $self setup"
  done
  if [ "$(id -u)" = 0 ]; then
    su -s /bin/sh - "$user" -c "test -r '$repo/go.mod'" || die "$user cannot read $repo: put the repository where they can"
  fi
  failed=
  suite || failed=" $(id -un)"
  if [ "$(id -u)" = 0 ]; then
    # With - the environment is the user's own. These options mean the same to busybox.
    su -s /bin/sh - "$user" -c "PATH='$PATH' exec sh '$repo/scripts/guest.sh' test" || failed="$failed $user"
  fi
  [ -z "$failed" ] || die "tests failed as:$failed"
}

want=$(sed -n 's/^go //p' "$repo/go.mod")
[ -n "$want" ] || die "$repo/go.mod names no version of Go: run this from a copy of the whole repository"
[ $# -gt 0 ] || usage
command=$1
shift
case $command in
setup)
  if [ "${1:-}" = --dry-run ]; then
    dry=1
    shift
    if [ "${1:-}" = --os-release ] && [ $# = 2 ]; then
      release=$2
      shift 2
    fi
  fi
  [ $# = 0 ] || usage
  setup
  ;;
go)
  [ $# = 1 ] || usage
  fits "$(version "$1/go/bin/go")" || fetch_go "$1"
  ;;
test)
  [ $# -le 1 ] || usage
  user=${1:-${SUDO_USER:-}}
  if [ "$(id -u)" = 0 ]; then
    [ "${user:-root}" != root ] || die "an ordinary user is needed, too: $self test USER"
    id "$user" >/dev/null 2>&1 || die "there is no user $user: name one that is there"
  else
    [ $# = 0 ] || die "only root can run tests as $1: sudo $self test $1"
  fi
  run_tests
  ;;
*) usage ;;
esac
