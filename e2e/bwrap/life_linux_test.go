package bwrap_test

import "fmt"

// lifeScenes are about how a sandbox ends, and what ends with it.
func lifeScenes() []scene {
	var list []scene
	for _, code := range []int{0, 1, 2, 63, 125, 126, 127, 128, 137, 255, 256} {
		list = append(list, c(fmt.Sprintf("exit-%d", code), fmt.Sprintf("{BASE} {FP} exit %d", code)),
			c(fmt.Sprintf("exit-%d-pid", code), fmt.Sprintf("{BASE} --unshare-pid {FP} exit %d", code)))
	}
	for _, number := range []int{1, 2, 3, 6, 9, 13, 15, 31, 34, 64} {
		list = append(list, c(fmt.Sprintf("kill-%d", number), fmt.Sprintf("{BASE} --unshare-pid --json-status-fd 9 {FP} kill %d", number), out(9)),
			c(fmt.Sprintf("kill-%d-no-pid", number), fmt.Sprintf("{BASE} {FP} kill %d", number)))
	}
	for name, words := range map[string]string{"": "", "-pid": "--unshare-pid", "-dwp": "--die-with-parent", "-pid-dwp": "--unshare-pid --die-with-parent",
		"-lock": "--lock-file /fp/fp", "-pid-1": "--unshare-pid --as-pid-1", "-pid-1-dwp": "--unshare-pid --as-pid-1 --die-with-parent", "-all": "--unshare-all --die-with-parent --new-session"} {
		list = append(list,
			c("term-monitor"+name, "{BASE} "+words+" {FP} hold", signalled(15)),
			c("kill-monitor"+name, "{BASE} "+words+" {FP} hold", signalled(9)),
			c("int-monitor"+name, "{BASE} "+words+" {FP} hold", signalled(2)),
			c("background"+name, "{BASE} "+words+" {FP} background 30000"),
			c("background-short"+name, "{BASE} "+words+" {FP} background 100"))
	}
	return append(list,
		c("usr1-monitor", "{BASE} --unshare-pid {FP} hold exit 4", signalled(10)),
		c("cont-monitor", "{BASE} --unshare-pid {FP} hold exit 4", signalled(18)),
		c("chld-monitor", "{BASE} --unshare-pid {FP} hold exit 4", signalled(17)),
		c("winch-monitor", "{BASE} --unshare-pid {FP} hold exit 4", signalled(28)),
		c("ignored-term-monitor", "{BASE} --unshare-pid {FP} hold exit 4", signalled(15), with(func(s *spec) { s.Ignore = []int{15} })),
		c("blocked-term-monitor", "{BASE} --unshare-pid {FP} hold exit 4", signalled(15), with(func(s *spec) { s.Block = []int{15} })),
		c("ignored-chld", "{BASE} --unshare-pid --json-status-fd 9 {FP} exit 9", out(9), with(func(s *spec) { s.Ignore = []int{17} })),
		c("blocked-chld", "{BASE} --unshare-pid --json-status-fd 9 {FP} exit 9", out(9), with(func(s *spec) { s.Block = []int{17} })),
		c("kill-init", "--ro-bind / / --unshare-pid --proc /proc sh -c 'kill -9 1; kill -15 1; echo still'"),
		c("kill-init-status", "--ro-bind / / --unshare-pid --json-status-fd 9 --proc /proc sh -c 'kill -9 1; exit 5'", out(9)),
		c("orphans", "--ro-bind / / --dev /dev --unshare-pid --proc /proc sh -c '(sleep 0.05; exit 3) & (sleep 0.1; exit 4) & exit 6'"),
		c("reaping", "--ro-bind / / --dev /dev --unshare-pid --proc /proc sh -c '(sh -c \"exit 3\" &) ; until [ $(ps -A -o pid= | wc -l) -le 5 ]; do sleep 0.01; done; ps -A -o stat= | grep -c Z'"),
		c("stopped", "--ro-bind / / --dev /dev --unshare-pid --proc /proc sh -c '(sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 7'"),
		c("session", "--ro-bind / / --dev /dev --unshare-pid --proc /proc ps -A -o pid=,ppid=,pgid=,sid=,comm="),
		c("session-new", "--ro-bind / / --dev /dev --unshare-pid --new-session --proc /proc ps -A -o pid=,ppid=,pgid=,sid=,comm="),
		c("session-pid-1", "--ro-bind / / --dev /dev --unshare-pid --as-pid-1 --proc /proc ps -A -o pid=,ppid=,pgid=,sid=,comm="),
		c("session-lock", "--ro-bind / / --dev /dev --unshare-pid --lock-file /etc/passwd --proc /proc ps -A -o pid=,ppid=,pgid=,sid=,comm="),
		c("lock", "{BASE} --bind {HOST} /h --lock-file /h/f {FP}", host("f f x")),
		c("lock-missing", "{BASE} --lock-file /h/f {FP}"),
		c("lock-missing-pid", "{BASE} --unshare-pid --lock-file /h/f {FP}"),
		c("lock-directory", "{BASE} --lock-file /fp {FP}"),
		c("lock-relative", "{BASE} --chdir /fp --lock-file fp {FP}"),
		c("lock-two", "{BASE} --lock-file /fp/fp --bind {HOST}/f /f --lock-file /f {FP}", host("f f x")),
		c("lock-held", "--ro-bind / / --proc /proc --unshare-pid --bind {HOST} {HOST} --lock-file {HOST}/f grep -c . /proc/locks", host("f f x"), ignore("stdout")),
		c("sync", "{BASE} --sync-fd 9 {FP}", fd(9, "data:")),
		c("sync-pid", "{BASE} --unshare-pid --sync-fd 9 {FP}", fd(9, "data:")),
		c("sync-two", "{BASE} --unshare-pid --sync-fd 9 --sync-fd 10 {FP}", fd(9, "data:"), fd(10, "data:")),
		c("sync-two-pid-1", "{BASE} --unshare-pid --as-pid-1 --sync-fd 9 --sync-fd 10 {FP}", fd(9, "data:"), fd(10, "data:")),
		c("sync-same", "{BASE} --unshare-pid --sync-fd 9 --sync-fd 9 {FP}", fd(9, "data:")),
		c("sync-2", "{BASE} --unshare-pid --sync-fd 2 {FP}"),
	)
}
