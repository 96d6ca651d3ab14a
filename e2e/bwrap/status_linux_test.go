package bwrap_test

// statusScenes are about the documents and the descriptors that delay.
func statusScenes() []scene {
	both := func(s *scene) { out(9)(s); out(10)(s) }
	pair := "{BASE} --info-fd 9 --json-status-fd 10 "
	return []scene{
		c("plain", pair+"{FP}", both),
		c("pid", pair+"--unshare-pid {FP}", both),
		c("all", pair+"--unshare-all {FP}", both),
		c("all-user", pair+"--unshare-user --unshare-all {FP} exit 3", both),
		c("some", pair+"--unshare-uts --unshare-cgroup {FP} exit 3", both),
		c("as-pid-1", pair+"--unshare-pid --as-pid-1 {FP} exit 3", both),
		c("killed", pair+"--unshare-pid {FP} kill 9", both),
		c("exec-fails", pair+"/nowhere", both),
		c("exec-fails-pid", pair+"--unshare-pid /nowhere", both),
		c("exec-fails-lock", pair+"--lock-file /fp/fp /nowhere", both),
		c("set-up-fails", pair+"--bind /nowhere /x {FP}", both),
		c("set-up-fails-late", pair+"--remount-ro /nowhere {FP}", both),
		c("lock-fails", pair+"--lock-file /nowhere {FP}", both),
		c("chdir-fails", pair+"--chdir /nowhere {FP}", both),
		c("parse-fails", pair+"--nonsense {FP}", both),
		c("sync", pair+"--sync-fd 11 {FP} exit 4", both, fd(11, "data:")),
		c("same", "{BASE} --info-fd 9 --json-status-fd 9 {FP} exit 4", out(9)),
		c("info-only", "{BASE} --info-fd 9 {FP}", out(9)),
		c("status-only", "{BASE} --json-status-fd 9 {FP} exit 256", out(9)),
		c("info-1", "{BASE} --info-fd 1 {FP}", ignore("stdout")),
		c("info-1-status-2", "--ro-bind / / --info-fd 1 --json-status-fd 2 true", ignore("stderr")),
		c("status-1", "--ro-bind / / --json-status-fd 1 echo hello"),
		c("info-read-only", "{BASE} --info-fd 9 {FP}", fd(9, "file:/dev/null")),
		c("status-read-only", "{BASE} --json-status-fd 9 {FP}", fd(9, "file:/dev/null")),
		c("info-full", "{BASE} --info-fd 9 {FP}", fd(9, "wo:/dev/full")),
		c("status-full", "{BASE} --json-status-fd 9 {FP}", fd(9, "wo:/dev/full")),
		c("info-path", "{BASE} --info-fd 9 {FP}", fd(9, "path:/")),
		c("block", "{BASE} --block-fd 9 {FP}", fd(9, "pipe:x")),
		c("block-late", "{BASE} --unshare-pid --block-fd 9 {FP}", fd(9, "late")),
		c("block-eof", "{BASE} --block-fd 9 {FP}", fd(9, "closing")),
		c("block-data", "{BASE} --block-fd 9 {FP}", fd(9, "data:xyz")),
		c("block-directory", "{BASE} --block-fd 9 {FP}", fd(9, "dir:/")),
		c("block-write-only", "{BASE} --block-fd 9 {FP}", host("f x y"), fd(9, "wo:{HOST}/x")),
		c("block-info", pair+"--block-fd 11 {FP}", both, fd(11, "late")),
		c("userns-block", "{BASE} --unshare-user --userns-block-fd 11 --info-fd 9 --json-status-fd 10 {FP}", both, fd(11, "late")),
		c("userns-block-eof", "{BASE} --unshare-user --userns-block-fd 11 --info-fd 9 {FP}", out(9), fd(11, "closing")),
		c("userns-block-dev", "{BASE} --unshare-user --userns-block-fd 11 --info-fd 9 --dev /dev --uid 5 {FP}", out(9), fd(11, "late")),
	}
}
