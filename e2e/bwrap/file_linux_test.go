package bwrap_test

import (
	"slices"
	"strings"
)

// fileScenes are the operations that make files.
func fileScenes() []scene {
	data := fd(9, "data:content")
	both := func(s *scene) { s.fds[9] = "data:content"; s.fds[10] = "data:other" }
	list := []scene{
		c("dir", "{BASE} --dir /a/b/c {FP} list=/"),
		c("dir-perms", "{BASE} --perms 0700 --dir /a/b/c --perms 0770 --dir /d/e --perms 0111 --dir /f/g/h {FP} list=/"),
		c("dir-existing", "{BASE} --dir /a --perms 0700 --dir /a {FP} list=/"),
		c("dir-on-file", "{BASE} --file 9 /x --dir /x {FP} list=/", data),
		c("dir-below-file", "{BASE} --file 9 /x --dir /x/y {FP} list=/", data),
		c("dir-root", "{BASE} --dir / --perms 0700 --dir / {FP} list=/"),
		c("dir-relative", "{BASE} --dir a/b {FP} list=/"),
		c("dir-dots", "{BASE} --dir /a/../b {FP} list=/"),
		c("dir-dots-above", "{BASE} --dir /../../c {FP} list=/"),
		c("dir-dots-existing", "{BASE} --dir /a --dir /a/../b/../c {FP} list=/"),
		c("dir-dot", "{BASE} --dir /./a/./b/. {FP} list=/"),
		c("dir-slashes", "{BASE} --dir //a///b// {FP} list=/"),
		c("dir-read-only", "{BASE} --dir /fp/x {FP} list=/"),
		c("dir-bound", "{BASE} --bind {HOST} /h --dir /h/a/b --perms 0700 --dir /h/c/d {FP} list=/h"),
		c("dir-bound-denied", "--ro-bind / / --dir /newdir {FPBIN}"),
		c("dir-name-too-long", "{BASE} --dir "+longName+" {FP}"),
		c("file", "{BASE} --file 9 /a/b/f {FP} list=/", data),
		c("file-perms", "{BASE} --perms 0640 --file 9 /a/f --perms 0100 --file 10 /b/g {FP} list=/", both),
		c("file-overwrite", "{BASE} --file 9 /f --file 10 /f {FP} list=/", fd(9, "data:a long content"), fd(10, "data:b")),
		c("file-overwrite-host", "{BASE} --bind {HOST} /h --file 9 /h/f --file 10 /h/g/g {FP} list=/h", both, host("f f before this")),
		c("file-on-dir", "{BASE} --dir /d --file 9 /d {FP}", data),
		c("file-on-link", "{BASE} --symlink t /l --file 9 /l {FP} list=/", data),
		c("file-on-link-existing", "{BASE} --file 10 /t --symlink t /l --file 9 /l {FP} list=/", both),
		c("file-read-only", "{BASE} --file 9 /fp/f {FP}", data),
		c("file-over-bind", "{BASE} --bind {HOST}/f /x --file 9 /x {FP} list=/", data, host("f f before")),
		c("file-relative", "{BASE} --file 9 f {FP} list=/", data),
		c("file-pipe", "{BASE} --file 9 /f {FP} list=/", fd(9, "pipe:from a pipe")),
		c("file-same-fd", "{BASE} --file 9 /f --file 9 /g {FP} list=/", data),
		c("file-directory-fd", "{BASE} --file 9 /f {FP}", fd(9, "dir:/")),
		c("file-write-only", "{BASE} --file 9 /f {FP}", host("f x y"), fd(9, "wo:{HOST}/x")),
		c("file-root", "{BASE} --file 9 / {FP}", data),
		c("file-slash", "{BASE} --file 9 /f/ {FP} list=/", data),
		c("file-fifo", "{BASE} --bind {HOST} /h --file 9 /h/p/x {FP}", data, host("p p")),
		c("bind-data", "{BASE} --bind-data 9 /a/f {FP} list=/ write=/a/f", data),
		c("ro-bind-data", "{BASE} --ro-bind-data 9 /a/f {FP} list=/ write=/a/f", data),
		c("bind-data-perms", "{BASE} --perms 0644 --bind-data 9 /a/f --perms 0444 --ro-bind-data 10 /b/g {FP} list=/", both),
		c("bind-data-existing", "{BASE} --bind {HOST} /h --bind-data 9 /h/f {FP} list=/h", data, host("f f before")),
		c("bind-data-host-stub", "{BASE} --bind {HOST} /h --ro-bind-data 9 /h/d/f {FP} list=/h", data),
		c("bind-data-on-dir", "{BASE} --dir /d --bind-data 9 /d {FP}", data),
		c("bind-data-on-link", "{BASE} --symlink t /l --bind-data 9 /l {FP} list=/", data),
		c("bind-data-read-only-parent", "{BASE} --ro-bind-data 9 /fp/f {FP}", data),
		c("bind-data-empty", "{BASE} --ro-bind-data 9 /f {FP} list=/", fd(9, "data:")),
		c("bind-data-same-fd", "{BASE} --ro-bind-data 9 /f --ro-bind-data 9 /g {FP} list=/", data),
		c("bind-data-twice", "{BASE} --bind-data 9 /f --bind-data 10 /f {FP}", both),
		c("bind-data-twice-ro", "{BASE} --bind {HOST} /h --ro-bind-data 9 /h/f --ro-bind-data 10 /h/f {FP}", both),
		c("symlink", "{BASE} --symlink ../x /a/b/l --symlink /fp /m --symlink '' /n {FP} list=/"),
		c("symlink-empty-target", "{BASE} --symlink '' /n {FP} list=/"),
		c("symlink-same", "{BASE} --symlink x /l --symlink x /l {FP} list=/"),
		c("symlink-other", "{BASE} --symlink x /l --symlink y /l {FP}"),
		c("symlink-on-dir", "{BASE} --dir /l --symlink y /l {FP}"),
		c("symlink-on-file", "{BASE} --file 9 /l --symlink y /l {FP}", data),
		c("symlink-host", "{BASE} --bind {HOST} /h --symlink x /h/a/l {FP} list=/h"),
		c("symlink-host-existing", "{BASE} --ro-bind {HOST} /h --symlink x /h/l {FP} list=/h", host("l l x")),
		c("symlink-host-other", "{BASE} --ro-bind {HOST} /h --symlink x /h/l {FP} list=/h", host("l l y")),
		c("symlink-read-only", "{BASE} --symlink x /fp/l {FP}"),
		c("symlink-root", "{BASE} --symlink x / {FP}"),
		c("symlink-relative", "{BASE} --symlink x l {FP} list=/"),
		c("symlink-slash", "{BASE} --symlink x /l/ {FP} list=/"),
		c("symlink-long", "{BASE} --symlink "+longName+" /l {FP} list=/"),
		c("tmpfs", "{BASE} --tmpfs /a/b {FP} list=/"),
		c("tmpfs-perms", "{BASE} --perms 1777 --tmpfs /tmp --perms 0700 --tmpfs /a/b {FP} list=/"),
		c("tmpfs-size", "{BASE} --size 1048576 --tmpfs /a {FP} write=/a/x list=/a"),
		c("tmpfs-size-one", "{BASE} --size 1 --tmpfs /a {FP} write=/a/x"),
		c("tmpfs-root", "{BASE} --tmpfs / {FP}"),
		c("tmpfs-root-first", "--tmpfs / {BASE} {FP} list=/"),
		c("tmpfs-over", "{BASE} --bind {HOST} /h --tmpfs /h --dir /h/x {FP} list=/h", host("f f x")),
		c("tmpfs-over-below", "{BASE} --bind {HOST} /h --tmpfs /h/d --tmpfs /h/e/g {FP} list=/h", host("d d", "f d/f x")),
		c("tmpfs-on-file", "{BASE} --ro-bind {HOST} /h --tmpfs /h/f {FP}", host("f f x")),
		c("tmpfs-twice", "{BASE} --tmpfs /a --dir /a/x --tmpfs /a {FP} list=/a"),
		c("tmpfs-relative", "{BASE} --tmpfs a {FP} list=/"),
		c("mqueue", "{BASE} --mqueue /dev/mqueue {FP} list=/dev"),
		c("mqueue-ipc", "{BASE} --unshare-ipc --mqueue /dev/mqueue {FP} list=/dev"),
		c("chmod", "{BASE} --dir /d --chmod 0700 /d --file 9 /f --chmod 0604 /f {FP} list=/", data),
		c("chmod-missing", "{BASE} --chmod 0700 /x {FP}"),
		c("chmod-link", "{BASE} --dir /d --symlink d /l --chmod 0700 /l {FP} list=/"),
		c("chmod-dangling", "{BASE} --symlink d /l --chmod 0700 /l {FP} list=/"),
		c("chmod-link-read-only", "{BASE} --ro-bind {HOST} /h --chmod 0700 /h/l {FP}", host("d d", "l l d")),
		c("chmod-link-host", "{BASE} --bind {HOST} /h --chmod 0700 /h/l {FP} list=/h", host("d d", "l l d")),
		c("chmod-dangling-read-only", "{BASE} --ro-bind {HOST} /h --chmod 0700 /h/l {FP}", host("l l none")),
		c("chmod-read-only", "{BASE} --chmod 0700 /fp {FP}"),
		c("chmod-root", "{BASE} --chmod 0711 / {FP} list=/"),
		c("chmod-host", "{BASE} --bind {HOST} /h --chmod 0600 /h/f {FP} list=/h", host("f f x")),
		c("chmod-parent-link", "{BASE} --dir /d/e --symlink /d /l --chmod 0700 /l/e {FP} list=/"),
		c("proc", "{BASE} --proc /proc {FP} read=/proc/self/comm"),
		c("remount-ro-device", "{BASE} --dev /dev --remount-ro /dev/zero {FP}"),
		c("remount-ro-dev-bind", "{BASE} --dev-bind /dev/pts /p --remount-ro /p {FP}"),
		c("proc-pid", "{BASE} --unshare-pid --proc /proc {FP} read=/proc/1/comm"),
		c("proc-pid-only", "--ro-bind / / --unshare-pid --proc /proc ls /proc/self/ns"),
		c("proc-open", "--ro-bind / / --unshare-pid --proc /proc {FPBIN} open=/proc/sys/kernel/core_pattern open=/proc/sysrq-trigger open=/proc/self/oom_score_adj"),
		c("proc-elsewhere", "{BASE} --unshare-pid --proc /a/b/proc {FP} list=/a"),
		c("proc-on-root", "--unshare-pid --proc / --ro-bind {INSIDE} /fs /fs/fp open=/irq/default_smp_affinity open=/sysrq-trigger open=/sys/kernel/core_pattern"),
		c("proc-then-covered", "{BASE} --unshare-pid --dir /a/b --proc /a/b --tmpfs /a --proc /p --ro-bind {INSIDE} /p/fs {FP} list=/a list=/p/fs"),
		c("proc-on-file", "{BASE} --file 9 /p --proc /p {FP}", data),
		c("proc-on-link", "{BASE} --dir /d --symlink d /p --proc /p {FP}"),
		c("proc-twice", "{BASE} --unshare-pid --proc /proc --proc /proc {FP}"),
		c("proc-relative", "{BASE} --proc proc {FP}"),
		c("proc-hidden", "{BASE} --unshare-pid --proc /proc --tmpfs /proc {FP} list=/proc"),
		c("dev", "{BASE} --dev /dev {FP} list=/ write=/dev/null write=/dev/full write=/dev/new"),
		c("dev-elsewhere", "{BASE} --dev /a/b/dev {FP} list=/a"),
		c("dev-existing", "--ro-bind / / --dev /dev {FPBIN} list=/dev"),
		c("dev-on-link", "{BASE} --dir /d --symlink d /dev --dev /dev {FP}"),
		c("dev-on-file", "{BASE} --file 9 /dev --dev /dev {FP}", data),
		c("dev-relative", "{BASE} --dev dev {FP} list=/"),
		c("dev-mqueue-shm", "{BASE} --unshare-ipc --dev /dev --tmpfs /dev/shm --mqueue /dev/mqueue {FP} list=/dev"),
		c("dev-missing", "--dev-bind / / --tmpfs /dev {BWRAP} --ro-bind / / --dev {HOST} {FPBIN}"),
		c("dev-missing-one", "--dev-bind / / --tmpfs /dev --dev-bind /dev/null /dev/null {BWRAP} --ro-bind / / --dev {HOST} {FPBIN}"),
		c("dev-dangling", "--dev-bind / / --tmpfs /dev --symlink none /dev/null {BWRAP} --ro-bind / / --dev {HOST} {FPBIN}"),
		c("dev-twice", "{BASE} --dev /dev --dev /dev {FP} list=/dev"),
		c("dev-uid", "{BASE} --unshare-user --uid 1234 --gid 77 --dev /dev {FP} list=/dev"),
		c("dev-remount", "{BASE} --dev /dev --remount-ro /dev {FP} write=/dev/x write=/dev/null"),
		c("dev-bind-below", "{BASE} --dev /dev --dev-bind /dev/zero /dev/mine --bind /dev/zero /dev/bad {FP} list=/dev write=/dev/mine write=/dev/bad"),
		c("parents", "{BASE} --bind {HOST} /a1/b/c --symlink x /a2/b/c --proc /a3/b/c --dev /a4/b/c --bind-data 9 /a5/b/c --file 10 /a6/b/c --tmpfs /a7/b/c --dir /a8/b/c "+
			"--perms 0644 --bind-data 11 /a9/b/c {FP} list=/", both, fd(11, "data:x")),
		c("parents-bind-file", "{BASE} --ro-bind {HOST}/f /a/b/c --bind {HOST}/f /d {FP} list=/", host("f f x")),
		c("remount-ro-root", "{BASE} --dir /a --remount-ro / {FP} write=/x list=/"),
		c("remount-ro-sub", "{BASE} --bind {HOST} /h --bind {HOST} /h/d --remount-ro /h {FP} write=/h/x write=/h/d/y", host("d d")),
		c("remount-ro-no-mount", "{BASE} --dir /a --remount-ro /a {FP}"),
		c("remount-ro-missing", "{BASE} --remount-ro /a {FP}"),
		c("remount-ro-file", "{BASE} --bind {HOST}/f /f --remount-ro /f {FP} write=/f", host("f f x")),
		c("remount-ro-link", "{BASE} --tmpfs /d --symlink d /l --remount-ro /l {FP} write=/d/x"),
		c("remount-ro-then-dir", "{BASE} --remount-ro / --dir /x {FP}"),
		c("remount-ro-then-bind", "{BASE} --remount-ro / --bind {HOST} /x {FP}"),
		c("remount-ro-inside", "{BASE} --tmpfs /a --dir /a/b --remount-ro /a --tmpfs /a/b {FP} write=/a/x write=/a/b/x"),
	}
	return slices.Concat(list, longScenes(), dotScenes())
}

// places are the operations that have a destination D.
var places = map[string]string{
	"dir": "--dir D", "tmpfs": "--tmpfs D", "bind": "--bind {HOST} D", "bind-file": "--ro-bind {HOST}/f D", "file": "--file 9 D", "bind-data": "--bind-data 9 D", "symlink": "--symlink t D",
	"chmod": "--chmod 0700 D", "remount-ro": "--remount-ro D", "proc": "--proc D", "dev": "--dev D", "overlay": "--overlay-src {HOST} --tmp-overlay D", "chdir": "--chdir D",
}

// longScenes have a name that is longer than a file system takes.
func longScenes() []scene {
	long := strings.Repeat("x", 256)
	var list []scene
	for name, op := range places {
		for where, dest := range map[string]string{"own": "/" + long, "own-parent": "/" + long + "/a", "host": "/h/" + long, "read-only": "/fp/" + long} {
			list = append(list, c("long-"+name+"-"+where, "{BASE} --bind {HOST} /h "+strings.ReplaceAll(op, "D", dest)+" {FP}", host("f f x"), fd(9, "data:x")))
		}
	}
	return append(list, c("long-enough", "{BASE} --bind {HOST} /h --dir /h/"+long[1:]+" --dir /"+long[1:]+" {FP} list=/"))
}

// dotScenes have a destination that ends above a directory.
func dotScenes() []scene {
	var list []scene
	for name, op := range places {
		for where, dest := range map[string]string{"own": "/a/b/..", "host": "/h/d/..", "missing": "/h/none/..", "link": "/h/l/..", "read-only": "/fp/none/..", "root": "/.."} {
			list = append(list, c("dots-"+name+"-"+where, "{BASE} --bind {HOST} /h "+strings.ReplaceAll(op, "D", dest)+" {FP} list=/h", host("d d", "l l d", "f f x"), fd(9, "data:x")))
		}
	}
	return list
}
