package bwrap_test

import (
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// spaceScenes are about namespaces.
func spaceScenes() []scene {
	number := ignore("fp.NSpid", "fp.NSpgid", "fp.NSsid") // in a namespace that others use, numbers are not fixed
	list := []scene{
		c("disable-userns", "{BASE} --unshare-user --disable-userns {FP}"),
		c("disable-userns-dev", "{BASE} --unshare-user --disable-userns --dev /dev --proc /proc {FP} read=/proc/sys/user/max_user_namespaces"),
		c("disable-userns-all", "{BASE} --unshare-user --unshare-all --disable-userns --assert-userns-disabled {FP}"),
		c("disable-userns-cap", "{BASE} --unshare-user --disable-userns --cap-add ALL {FP}"),
		c("disable-userns-uid", "{BASE} --unshare-user --disable-userns --uid 5 --gid 6 {FP}"),
		c("disable-userns-nested", "--ro-bind / / --unshare-user --disable-userns --proc /proc unshare -U true"),
		c("disable-userns-userns", "{BASE} --userns 9 --disable-userns {FP}", fd(9, "ns:user")),
		c("disable-userns-userns2", "{BASE} --unshare-user --disable-userns --userns2 9 {FP}", fd(9, "ns2:user")),
		c("assert", "{BASE} --assert-userns-disabled {FP}"),
		c("assert-user", "{BASE} --unshare-user --assert-userns-disabled {FP}"),
		c("assert-nested", "--ro-bind / / --unshare-user --disable-userns --proc /proc {BWRAP} --ro-bind / / true"),
		c("share-net", "{BASE} --unshare-all --share-net {FP}"),
		c("share-net-before", "{BASE} --share-net --unshare-all {FP}"),
		c("share-net-net", "{BASE} --unshare-net --share-net {FP}"),
		c("share-net-between", "{BASE} --unshare-net --share-net --unshare-net {FP}"),
		c("uid", "{BASE} --unshare-user --uid 0 --gid 0 {FP} list=/"),
		c("uid-other", "{BASE} --unshare-user --uid 1000 --gid 1001 {FP} list=/"),
		c("uid-big", "{BASE} --unshare-user --uid 2147483647 --gid 2147483646 {FP}"),
		c("gid-only", "{BASE} --unshare-user --gid 12 {FP}"),
		c("uid-file", "{BASE} --unshare-user --uid 12 --gid 13 --dir /d --tmpfs /t --file 9 /f --bind-data 10 /g {FP} list=/", fd(9, "data:x"), fd(10, "data:y")),
		c("uid-dev-cap", "{BASE} --unshare-user --uid 12 --dev /dev --cap-add cap_sys_admin {FP} list=/dev"),
		c("userns", "{BASE} --userns 9 {FP}", fd(9, "ns:user")),
		c("userns-uid", "{BASE} --userns 9 --uid 0 --gid 0 {FP}", fd(9, "ns:user")),
		c("userns-uid-5", "{BASE} --userns 9 --uid 5 {FP}", fd(9, "ns:user")),
		c("userns-dev", "{BASE} --userns 9 --dev /dev {FP}", fd(9, "ns:user")),
		c("userns-pid", "{BASE} --userns 9 --unshare-pid --proc /proc {FP}", fd(9, "ns:user")),
		c("userns-cap", "{BASE} --userns 9 --cap-add ALL {FP}", fd(9, "ns:user")),
		c("userns-file", "{BASE} --userns 9 --file 10 /f --tmpfs /t {FP} list=/", fd(9, "ns:user"), fd(10, "data:x")),
		c("userns-host", "{BASE} --userns 9 {FP}", fd(9, "file:/proc/self/ns/user")),
		c("userns-inner", "{BASE} --userns 9 {FP}", fd(9, "ns2:user")),
		c("userns-wrong-kind", "{BASE} --userns 9 {FP}", fd(9, "ns:pid")),
		c("userns2", "{BASE} --userns 9 --userns2 10 {FP}", fd(9, "ns:user"), fd(10, "ns2:user")),
		c("userns2-pid", "{BASE} --userns 9 --userns2 10 --unshare-pid --proc /proc {FP}", fd(9, "ns:user"), fd(10, "ns2:user")),
		c("userns2-same", "{BASE} --userns 9 --userns2 9 {FP}", fd(9, "ns:user")),
		c("userns2-alone", "{BASE} --userns2 9 {FP}", fd(9, "ns:user")),
		c("userns2-unshare", "{BASE} --unshare-user --userns2 9 {FP}", fd(9, "ns:user")),
		c("pidns", "{BASE} --userns 9 --pidns 10 {FP}", fd(9, "ns:user"), fd(10, "ns:pid"), number),
		c("pidns-proc", "{BASE} --userns 9 --pidns 10 --proc /proc {FP} read=/proc/1/comm", fd(9, "ns:user"), fd(10, "ns:pid"), number),
		c("pidns-nested", "{BASE} --userns 9 --pidns 10 --unshare-pid --proc /proc {FP} read=/proc/1/comm", fd(9, "ns:user"), fd(10, "ns:pid"), number),
		c("pidns-exit", "{BASE} --userns 9 --pidns 10 {FP} exit 12", fd(9, "ns:user"), fd(10, "ns:pid"), number),
		c("pidns-status", "{BASE} --userns 9 --pidns 10 --info-fd 11 --json-status-fd 12 {FP} exit 3", fd(9, "ns:user"), fd(10, "ns:pid"), out(11), out(12), number),
		c("pidns-alone", "{BASE} --pidns 10 {FP}", fd(10, "ns:pid"), number),
		c("pidns-host", "{BASE} --pidns 10 {FP}", fd(10, "file:/proc/self/ns/pid"), number),
		c("pidns-wrong-kind", "{BASE} --pidns 10 {FP}", fd(10, "ns:user"), number),
		c("pidns-fd-0", "{BASE} --userns 9 --pidns 0 {FP}", fd(9, "ns:user"), fd(0, "ns:pid"), number),
		c("pidns-as-pid-1", "{BASE} --userns 9 --pidns 10 --as-pid-1 {FP}", fd(9, "ns:user"), fd(10, "ns:pid"), number),
		c("pidns-as-pid-1-nested", "{BASE} --userns 9 --pidns 10 --unshare-pid --as-pid-1 {FP}", fd(9, "ns:user"), fd(10, "ns:pid"), number, with(func(s *spec) { s.Timeout = int(testenv.Scale(700 * time.Millisecond).Milliseconds()) })), // bubblewrap waits for ever
		c("pidns-lock", "{BASE} --userns 9 --pidns 10 --lock-file /fp/fp {FP}", fd(9, "ns:user"), fd(10, "ns:pid"), number),
		c("hostname", "{BASE} --unshare-uts --hostname box --hostname box2 {FP}"),
		c("hostname-late", "{BASE} --hostname box --unshare-uts {FP}"),
		c("hostname-failing-later", "{BASE} --unshare-uts --hostname x --dir /fp/x {FP}"),
		c("as-pid-1", "{BASE} --unshare-pid --as-pid-1 {FP}"),
		c("as-pid-1-proc", "{BASE} --unshare-pid --as-pid-1 --proc /proc {FP} read=/proc/1/comm"),
		c("as-pid-1-sync", "{BASE} --unshare-pid --as-pid-1 --sync-fd 9 {FP}", fd(9, "data:")),
		c("new-session", "{BASE} --new-session {FP}"),
		c("new-session-pid", "{BASE} --new-session --unshare-pid {FP}"),
		c("new-session-as-pid-1", "{BASE} --new-session --unshare-pid --as-pid-1 {FP}"),
		c("dwp", "{BASE} --die-with-parent {FP}"),
		c("dwp-pid", "{BASE} --die-with-parent --unshare-pid {FP}"),
		c("nested-user", "--ro-bind / / --proc /proc --dev /dev {BWRAP} --ro-bind / / --proc /proc --dev /dev {FPBIN}"),
		c("nested-all", "--ro-bind / / --unshare-all --proc /proc --dev /dev {BWRAP} --ro-bind / / --unshare-all --proc /proc --dev /dev {FPBIN}"),
		c("nested-tmp", "--ro-bind / / --unshare-all --tmpfs /tmp {BWRAP} --ro-bind / / --tmpfs /tmp {FPBIN}"),
		c("nested-uid", "--ro-bind / / --unshare-user --uid 0 --gid 0 --cap-add ALL --dev /dev {BWRAP} --ro-bind / / --unshare-all --dev /dev {FPBIN}"),
		c("nested-three", "--ro-bind / / --unshare-all --dev /dev {BWRAP} --ro-bind / / --unshare-all --dev /dev {BWRAP} --ro-bind / / --unshare-pid --dev /dev {FPBIN}"),
		c("nested-no-tmp", "--ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind /srv /srv --ro-bind-try /var/cache/nsrun-oracles /var/cache/nsrun-oracles {BWRAP} --ro-bind / / true"),
		c("nested-no-proc", "--ro-bind / / --tmpfs /proc {BWRAP} --ro-bind / / true"),
	}
	for _, name := range []string{"user", "user-try", "ipc", "pid", "net", "uts", "cgroup", "cgroup-try", "all"} {
		list = append(list,
			c("unshare-"+name, "{BASE} --unshare-"+name+" {FP}"),
			c("unshare-"+name+"-user", "{BASE} --unshare-user --unshare-"+name+" --proc /proc --dev /dev {FP} list=/proc/self/ns"),
			c("unshare-"+name+"-whole", "--ro-bind / / --unshare-"+name+" --dev /dev --proc /proc {FPBIN}"))
	}
	return list
}
