package bwrap_test

// clientScenes are what programs in the wild ask for.
func clientScenes() []scene {
	usr := "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 "
	recurse := "--unshare-user --uid 0 --gid 0 --cap-add ALL --bind / / --bind /proc /proc -- /proc/self/exe "
	return []scene{
		c("itself-version", "--bind / / --proc /proc /proc/self/exe --version", ignore("stdout")),
		c("itself-thread", "--bind / / --proc /proc /proc/thread-self/exe --version", ignore("stdout")),
		c("itself-empty", "--ro-bind / / --unshare-pid --proc /proc /proc/self/exe --ro-bind / /"),
		c("itself-wrong", "--ro-bind / / --proc /proc /proc/self/exe --no-such-option true"),
		c("itself-fails", "--ro-bind / / --proc /proc /proc/self/exe --bind /nowhere /nowhere true"),
		c("itself-recurse", recurse+"--unshare-all --bind / / --bind /proc /proc {FPBIN} read=/proc/self/comm"),
		c("itself-recurse-twice", recurse+recurse+"--unshare-all --ro-bind / / --proc /proc --dev /dev sh -c 'echo hello'"),
		c("itself-clearenv", "--clearenv --ro-bind / / --proc /proc --unshare-pid --as-pid-1 /proc/self/exe --ro-bind / / {FPBIN}"),
		c("srt-probe", "--unshare-user --dev-bind / / true"),
		c("srt", "--new-session --die-with-parent --setenv A b --unshare-net --ro-bind / / --bind {HOST} {HOST} --ro-bind /dev/null {HOST}/.git --dev /dev --unshare-pid --proc /proc -- {FPBIN} write={HOST}/x"),
		c("srt-cap", "--new-session --die-with-parent --unshare-user --unshare-pid --uid 0 --gid 0 --cap-drop ALL --cap-add CAP_SETFCAP --ro-bind / / --bind /proc /proc --dev /dev -- {FPBIN}"),
		c("srt-disable", "--new-session --unshare-user --disable-userns --unshare-pid --ro-bind / / --dev /dev --proc /proc -- sh -c 'echo ok'"),
		c("codex", "--new-session --die-with-parent --ro-bind / / --dev /dev --bind {HOST} {HOST} --ro-bind {HOST}/.git {HOST}/.git --perms 000 --tmpfs {HOST}/secret --remount-ro {HOST}/secret "+
			"--ro-bind /dev/null {HOST}/.codex --unshare-user --unshare-pid --unshare-net --proc /proc --chdir {HOST} --argv0 codex-linux-sandbox -- {FPBIN} write={HOST}/x write={HOST}/.git/x list={HOST}", host("d .git", "d secret", "f secret/x y")),
		c("glycin", usr+"--unshare-all --die-with-parent --chdir / --ro-bind-try /etc/nothing /etc/nothing --dev /dev --tmpfs /tmp-home --tmpfs /tmp-run --clearenv --setenv HOME /tmp-home --setenv XDG_RUNTIME_DIR /tmp-run --symlink /run /var/run --seccomp 9 cat",
			stdin("image"), at(9, filter(allow, allow))),
		c("thumbnailer", usr+"--proc /proc --dev /dev --chdir / --setenv GIO_USE_VFS local --unshare-all --die-with-parent --bind {HOST}/out /tmp --ro-bind {HOST}/in.png /tmp/gnome-desktop-file-to-thumbnail.png {BASE} {FP} list=/tmp write=/tmp/out.png",
			host("d out", "f in.png image")),
		c("webkit", "--args 9 -- {FP} list=/run", args(9, "--die-with-parent", "--unshare-pid", "--unshare-uts", "--unshare-net", "--unshare-ipc", "--ro-bind", "{INSIDE}", "/fp", "--dev", "/dev", "--proc", "/proc",
			"--tmpfs", "/tmp", "--dir", "/run/user/1", "--symlink", "../run", "/var/run", "--setenv", "GTK_A11Y", "none", "--unsetenv", "LANG", "--ro-bind-data", "10", "/.flatpak-info"), fd(10, "data:[Application]\n")),
		c("ansible", "--die-with-parent --unshare-pid --dev-bind /dev dev --proc /proc --dir /tmp --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --bind {HOST} /work --chdir /work {BASE} {FP} write=/work/x"),
		c("rpm-ostree", "--dev /dev --proc /proc --dir /run --dir /tmp --chdir / --die-with-parent --unshare-pid --unshare-uts --unshare-ipc --unshare-net --unshare-cgroup-try --ro-bind usr /usr --bind etc /etc --tmpfs /var --symlink usr/lib /lib "+
			"--cap-drop ALL --cap-add cap_chown --cap-add cap_dac_override --cap-add cap_fowner --cap-add cap_fsetid --cap-add cap_kill --cap-add cap_setgid --cap-add cap_setuid --cap-add cap_setpcap {BASE} {FP} write=/etc/x write=/usr/x list=/etc", host("d usr", "d etc")),
		c("mat2", "--ro-bind / / --dev /dev --proc /proc --chdir / --unshare-user-try --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try --new-session --cap-drop all --bind {HOST} {HOST} --ro-bind {HOST}/in {HOST}/in {FPBIN} write={HOST}/in write={HOST}/out", host("f in x")),
		c("flatpak", "--args 9 -- {FP} list=/run list=/app", args(9, "--clearenv", "--setenv", "PATH", "/app/bin:/usr/bin", "--unshare-ipc", "--unshare-net", "--unshare-pid", "--unshare-user", "--disable-userns", "--die-with-parent", "--ro-bind", "{INSIDE}", "/fp",
			"--proc", "/proc", "--dev", "/dev", "--perms", "0700", "--dir", "/run/user/5", "--ro-bind-try", "/proc/self/ns/user", "/run/.userns", "--ro-bind-fd", "10", "/app", "--lock-file", "/app/.ref", "--perms", "0600", "--ro-bind-data", "11", "/.flatpak-info",
			"--perms", "0600", "--file", "12", "/run/f", "--symlink", "/app/lib", "/lib", "--info-fd", "13", "--seccomp", "14", "--cap-drop", "ALL", "--sync-fd", "15", "--chdir", "/app", "--remount-ro", "/"),
			host("f .ref x", "d lib"), fd(10, "path:{HOST}"), fd(11, "data:[Application]"), fd(12, "data:secret"), out(13), at(14, filter(allow, allow)), fd(15, "pipe:")),
		c("bubblejail", "--args 9 -- {FP} list=/home", args(9, "--unshare-all", "--share-net", "--die-with-parent", "--as-pid-1", "--new-session", "--ro-bind", "{INSIDE}", "/fp", "--proc", "/proc", "--dev", "/dev", "--clearenv", "--setenv", "HOME", "/home/user",
			"--ro-bind-data", "10", "/etc/passwd", "--seccomp", "11", "--info-fd", "12", "--perms", "0700", "--dir", "/home/user", "--chdir", "/home/user"), fd(10, "data:user:x"), at(11, filter(allow, allow)), out(12)),
		c("fhs-env", usr+"--dev-bind /dev /dev --proc /proc --chdir / --die-with-parent --bind-try {HOST} {HOST} --tmpfs {HOST}/store --ro-bind-try /etc/passwd /etc/passwd --remount-ro {HOST}/store --symlink /etc/passwd /etc/other {BASE} {FP} write={HOST}/x write={HOST}/store/x"),
		c("sandwine", "--unshare-user --unshare-all --share-net --disable-userns --die-with-parent --hostname box --tmpfs / {BASE} --dev /dev --proc /proc --tmpfs /tmp --clearenv --setenv A b {FP} list=/tmp"),
		c("melange", "--bind {HOST} / {BASE} --unshare-pid --die-with-parent --dev /dev --proc /proc --chdir / --clearenv --new-session --unshare-net {FP} write=/x", host("d etc")),
		c("buildbox", "--bind {HOST} / {BASE} --dev /dev --proc /proc --tmpfs /tmp --unshare-user --unshare-pid --unshare-net --unshare-uts --unshare-ipc --uid 0 --gid 0 --hostname buildbox --chdir /work --die-with-parent --info-fd 9 --setenv A b {FP} write=/work/x", host("d work"), out(9)),
		c("opam", usr+"--unshare-net --new-session --proc /proc --dev /dev --bind {HOST} {HOST} --setenv TMPDIR /tmp --tmpfs /run --ro-bind {HOST}/ro {HOST}/ro {BASE} {FP} write={HOST}/x write={HOST}/ro/x", host("d ro")),
		c("pressure-vessel", "--args 9 {FP}", args(9, "--ro-bind", "{INSIDE}", "/fp", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--dir", "/x", "--perms", "0644", "--ro-bind-data", "10", "/run/host/container-manager", "--level-prefix",
			"--not-a-security-boundary", "--lock-file", "/fp/fp"), fd(10, "data:pressure-vessel\n")),
	}
}
