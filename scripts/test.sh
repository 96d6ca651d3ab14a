#!/bin/bash
# Runs all checks and tests, as root also as an ordinary user. As root on Debian it installs what it needs; otherwise it says what is
# missing. With CI=true a missing fixture is a failure.
#
#   scripts/test.sh            everything
#   scripts/test.sh --quick    without the race detector and the second user
set -euo pipefail
cd "$(dirname "$0")/.."
quick=${1:-}
packages="bubblewrap gcc libc6-dev libseccomp-dev python3 nodejs qemu-user-static docker.io podman crun"
ci_packages="vagrant vagrant-libvirt qemu-system-x86 qemu-system-arm xz-utils cpio dbus-daemon" # beside those, where CI is set: a developer's tests skip without
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
pure="./nsrun/policy ./nsrun/facts ./nsrun/plan ./nsrun/manifest ./nsrun/bwrap ./nsrun/profile ./mounts ./landlock ./seccomp ./rlimit ./rlimit/cgroup"

say() { printf '\n== %s\n' "$*"; }
die() { echo "test.sh: $*" >&2; exit 1; }

say "what is needed"
command -v go >/dev/null || die "Go 1.26 or newer is needed: https://go.dev/doc/install"
missing=
[ "${CI:-}" = "" ] || packages="$packages $ci_packages"
for p in $packages; do
  [ "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null)" = "install ok installed" ] || missing="$missing $p"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  else
    echo "missing:$missing (as root: apt-get update && apt-get install$missing); what needs them is skipped"
    [ "${CI:-}" = "" ] || die "CI must have them"
  fi
fi
go version

say "format, vet, house"
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
go vet ./... ./e2e/testdata/probe ./e2e/bwrap/testdata/fingerprint ./e2e/engine/testdata/act ./e2e/host/testdata/lock ./e2e/container/testdata/inside ./e2e/docker/testdata/probe
GOOS=darwin go vet $pure
GOARCH=arm64 CGO_ENABLED=0 go vet ./...
say "staticcheck"
go run $staticcheck ./...

say "builds: amd64 and arm64, static"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for arch in amd64 arm64; do
  GOARCH=$arch CGO_ENABLED=0 go build -o "$out/nsrun-$arch" ./cmd/nsrun
done
! ldd "$out/nsrun-$(go env GOARCH)" >/dev/null 2>&1 || die "the binary is not static"

say "generated files"
go generate ./...
[ "${CI:-}" = "" ] || git diff --exit-code || die "go generate left a difference"

say "tests as $(id -un)"
go test -count=1 -timeout 20m ./...
if dpkg-query -W -f='${Status}' libseccomp-dev 2>/dev/null | grep -q installed; then
  say "tests with libseccomp"
  CGO_ENABLED=1 go vet -tags libseccomp ./...
  CGO_ENABLED=1 go test -count=1 -tags libseccomp ./seccomp/...
  CGO_ENABLED=1 go build -tags libseccomp,osusergo,netgo -ldflags '-linkmode external -extldflags -static' -o "$out/nsrun-libseccomp" ./cmd/nsrun
  ! ldd "$out/nsrun-libseccomp" >/dev/null 2>&1 || die "the binary with libseccomp is not static"
  echo '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}' >"$out/profile.json"
  "$out/nsrun-libseccomp" seccomp compile -o "$out/profile.bpf" "$out/profile.json"
  for nsrun in "$out/nsrun-libseccomp run --fallback degrade --seccomp $out/profile.json" "$out/nsrun-$(go env GOARCH) run --fallback degrade --seccomp $out/profile.bpf"; do
    (cd / && $nsrun -- true) || die "$nsrun -- true: it does not run"
    ! (cd / && $nsrun -- mkdir /tmp/x) 2>/dev/null || die "$nsrun -- mkdir: the profile does not hold"
  done
fi
[ "$quick" != "--quick" ] || exit 0

say "tests under the race detector"
# Each process sleeps before it ends, for races of goroutines that nobody waits for. A second is too long for the hundreds that tests start.
GORACE=atexit_sleep_ms=50 CGO_ENABLED=1 go test -race -count=1 -timeout 30m ./...

say "pure rooms on arm64"
if command -v qemu-aarch64-static >/dev/null; then
  # The bound on time (MF19) is for a real processor: it is kept in the native runs, and means nothing under emulation.
  GOARCH=arm64 CGO_ENABLED=0 go test -count=1 -skip '^TestHostileFilesAreRefusedFast$' -exec qemu-aarch64-static ./nsrun/policy ./nsrun/facts ./nsrun/plan ./nsrun/manifest ./nsrun/bwrap
else
  echo "missing: qemu-aarch64-static (package qemu-user-static)"
  [ "${CI:-}" = "" ] || die "CI must have it"
fi

say "tests on other kernels"
if command -v qemu-system-x86_64 >/dev/null; then
  go test ./e2e -run '^TestVM$' -count=1 -v -timeout 80m >"$out/vm.log" 2>&1 || { grep -vE '^ *(=== |--- (PASS|SKIP)|vmrun_linux_test.go:[0-9]+: [0-9.]+ s in the guest)' "$out/vm.log" | grep -B40 -A5 -- '--- FAIL' | tail -n 300; die "TestVM failed"; }
  sed -n '/tests in the machines:/,/^--- /p' "$out/vm.log" | head -n -1
else
  echo "missing: qemu-system-x86_64 (package qemu-system-x86)"
  [ "${CI:-}" = "" ] || die "CI must have it"
fi

if [ "$(id -u)" = 0 ]; then
  user=nsrun-test
  say "tests as $user"
  made=
  id "$user" >/dev/null 2>&1 || { useradd --create-home --shell /bin/sh "$user"; made=1; }
  home=$(getent passwd "$user" | cut -d: -f6)
  tree=$(mktemp -d /var/tmp/nsrun-test.XXXXXX)
  cleanup() { rm -rf "$out" "$tree"; [ -z "$made" ] || userdel --remove "$user" 2>/dev/null || true; }
  trap cleanup EXIT
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$tree"
  chmod 755 "$tree"
  for dir in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | grep -v /e2e); do # those take a user of their own
    rel=${dir#"$PWD"/}
    go test -c -o "$tree/$rel/run.test" "./$rel"
  done
  CGO_ENABLED=0 go build -o "$tree/bin/nsrun" ./cmd/nsrun
  chown -R "$user" "$tree"
  for bin in $(cd "$tree" && find . -name run.test | sort); do
    echo "-- ${bin%/run.test}"
    (cd "$tree/${bin%/run.test}" && setpriv --reuid "$user" --regid "$user" --init-groups \
      env -i HOME="$home" USER="$user" PATH="$PATH" LANG=C.UTF-8 CI="${CI:-}" NSRUN_BIN="$tree/bin/nsrun" \
      ./run.test -test.timeout 20m -test.count 1 -test.paniconexit0)
  done
fi
say "all passed"
