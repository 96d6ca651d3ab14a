package clients_test

import (
	"fmt"
	"strings"
)

const (
	base  = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 "
	state = "id -u; pwd; cat /proc/1/comm; grep -E 'Cap(Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status; "
)

func standins() []standin {
	return []standin{
		{name: "flatpak", words: "--args {ARGS} --", gives: []give{{name: "INFO", info: "file"}, refuseChmod, {name: "DATA", data: "[Application]\n"}, {name: "FILE", data: "secret"}, {name: "LOCK", data: ""}},
			lay: map[string]string{"app/.ref": "", "app/lib/x": ""},
			args: "--clearenv --setenv PATH /app/bin:/usr/bin --setenv container flatpak --unshare-ipc --unshare-net --unshare-pid --unshare-user --disable-userns --die-with-parent " + base +
				"--proc /proc --dev /dev --perms 0700 --dir /run/user/5 --ro-bind-try /proc/self/ns/user /run/.userns --ro-bind {DIR}/app /app --lock-file /app/.ref --perms 0600 --ro-bind-data {DATA} /.flatpak-info " +
				"--perms 0600 --file {FILE} /run/file --symlink /app/lib /applib --info-fd {INFO} --seccomp {SECCOMP} --cap-drop ALL --sync-fd {LOCK} --chdir /app --remount-ro /",
			script: state + "env | sort; ls -l /applib; cat /.flatpak-info; stat -c '%a %n' /.flatpak-info /run/file /run/user/5; ls /proc/self/fd; touch /x; unshare --user true; touch /run/x && chmod 700 /run/x; exit 0",
			want:   "[Application]\n"},
		{name: "webkit", words: "--args {ARGS} --", gives: []give{refuseChmod, {name: "DATA", data: "[Instance]\n"}},
			args: "--die-with-parent --unshare-pid --unshare-uts --unshare-net --unshare-ipc " + base + "--dev-bind-try /dev/dri /dev/dri --dev /dev --proc /proc --tmpfs /tmp --dir /run/user/1 --symlink ../run /var/run " +
				"--unsetenv LANG --setenv GTK_A11Y none --ro-bind-try /etc/nothing /etc/nothing --ro-bind-data {DATA} /.flatpak-info --seccomp {SECCOMP}",
			script: state + "ls -l /var/run/user | tail -n +2 | cut -c1-10; cat /.flatpak-info; echo $LANG $GTK_A11Y; ls /proc/self/fd", want: "none\n"},
		{name: "bubblejail", words: "--args {ARGS} --", gives: []give{{name: "INFO", info: "pipe"}, refuseChmod, {name: "PASSWD", data: "user:x:1000:1000::/home/user:/bin/sh\n"}},
			args: "--unshare-all --share-net --die-with-parent --as-pid-1 --new-session " + base + "--proc /proc --dev /dev --clearenv --setenv HOME /home/user --ro-bind-data {PASSWD} /etc/passwd --seccomp {SECCOMP} --info-fd {INFO} " +
				"--perms 0700 --dir /home/user --chdir /home/user",
			script: "read word; echo $$ $word $HOME; cat /etc/passwd; stat -c %a /home/user; chmod 755 /home/user; ls /proc/self/fd", input: "go\n", want: "1 go /home/user\n"},
		{name: "bubblejail-net", words: "--args {ARGS} --", gives: []give{{name: "INFO", info: "pipe"}},
			args:   "--unshare-all --die-with-parent --new-session " + base + "--proc /proc --dev /dev --info-fd {INFO}",
			script: "read word; echo $$ $word; tail -n +3 /proc/net/dev | cut -d: -f1", input: "go\n", want: "2 go\n"},
		{name: "rpm-ostree", only: "root", cwd: "rootfs", lay: map[string]string{"rootfs/etc/hosts": "1 x\n", "rootfs/var/lib/y": "", "rootfs/usr": "-> /usr"},
			words: "--dev /dev --proc /proc --dir /run --dir /tmp --chdir / --die-with-parent --unshare-pid --unshare-uts --unshare-ipc --unshare-net --unshare-cgroup-try --ro-bind usr /usr --bind etc /etc --tmpfs /var --bind var/lib /var/lib " +
				"--symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin --symlink usr/sbin /sbin --cap-drop ALL --cap-add cap_chown --cap-add cap_dac_override --cap-add cap_fowner --cap-add cap_fsetid --cap-add cap_kill " +
				"--cap-add cap_setgid --cap-add cap_setuid --cap-add cap_setpcap --cap-add cap_sys_chroot --cap-add cap_setfcap",
			script: state + "cat /etc/hosts; echo 2 y >>/etc/hosts; cat /etc/hosts; touch /usr/x; ls /var/lib; touch /tmp/x && chown 5:6 /tmp/x && stat -c %u:%g /tmp/x; readlink /proc/self/ns/user | cut -d: -f1", want: "5:6\n"},
		{name: "codex-preflight", words: "--new-session --die-with-parent --ro-bind / / --dev /dev --unshare-user --unshare-pid --proc /proc --",
			script: "exec true"},
		{name: "codex", words: "--new-session --die-with-parent --ro-bind / / --dev /dev --bind {DIR}/work {DIR}/work --ro-bind {DIR}/work/.git {DIR}/work/.git --perms 000 --tmpfs {DIR}/work/secret --remount-ro {DIR}/work/secret " +
			"--ro-bind /dev/null {DIR}/work/.codex --unshare-user --unshare-pid --unshare-net --proc /proc --chdir {DIR}/work --",
			lay: map[string]string{"work/.git/config": "kept", "work/secret/x": "secret", "work/file": "file"}, cwd: "work",
			script: state + "cat /proc/$PPID/comm; ls -A; cat secret/x file; echo x >.git/config; echo x >.codex; echo y >file && cat file; ls -la /dev/fd /dev/shm; tail -n +3 /proc/net/dev | cut -d: -f1", want: "bwrap\n.codex\n"},
		{name: "glycin", before: "prlimit --as=4294967296 --", gives: []give{refuseChmod}, socket: true, input: "image\n",
			words: "--unshare-all --die-with-parent --chdir / " + base + "--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --dev /dev --tmpfs /tmp-home --tmpfs /tmp-run --clearenv --setenv HOME /tmp-home --setenv XDG_RUNTIME_DIR /tmp-run " +
				"--symlink /run /var/run --seccomp {SECCOMP}",
			script: "ulimit -v; cat; env | sort; touch /tmp-home/x && chmod 1 /tmp-home/x; ls /", want: "4194304\nimage\n"},
		{name: "glycin-filter", gives: []give{allowFew}, socket: true, input: "image\n",
			words:  "--unshare-all --die-with-parent --chdir / " + base + "--dev /dev --tmpfs /tmp-home --clearenv --setenv HOME /tmp-home --seccomp {SECCOMP}",
			script: "exec cat", want: "image\n"},
		{name: "fhs-env", words: "--args {ARGS}", args: fhs(), lay: fhsStore(),
			script: "ls {DIR} /etc | wc -l; cat {DIR}/store/p199/file /etc/l299; echo x >{DIR}/store/new; ls -d /fhs*; mount | grep -c /fhs; exit 0", want: "this is 199\n"},
		{name: "buildbox", lay: map[string]string{"img/etc/conf": "", "img/usr/x": "", "img/work/in": ""}, gives: []give{{name: "INFO", info: "file"}},
			words: "--bind {DIR}/img / --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --dev /dev --proc /proc --tmpfs /tmp --unshare-user --unshare-pid --unshare-net --unshare-uts --unshare-ipc --uid 0 --gid 0 " +
				"--hostname buildbox --chdir /work --die-with-parent --info-fd {INFO} --setenv A b --unsetenv HOME",
			script: state + "uname -n; ls; echo made >out; cat out; echo $A$HOME; ls -ln out | cut -d' ' -f3,4", want: "buildbox\n"},
		{name: "melange", lay: map[string]string{"img/etc/conf": ""},
			words:  "--bind {DIR}/img / " + base + "--unshare-pid --die-with-parent --dev /dev --proc /proc --chdir / --clearenv --setenv PATH /usr/bin --new-session --unshare-net",
			script: state + "echo x >/made && cat /made; env | sort; ls /", want: "x\n"},
		{name: "sandwine", words: "--unshare-user --unshare-all --share-net --disable-userns --die-with-parent --hostname box --tmpfs / " + base + "--dev /dev --proc /proc --tmpfs /tmp --clearenv --setenv A b",
			script: state + "uname -n; unshare --user true; touch /x; ls /; cat /proc/sys/user/max_user_namespaces", want: "box\n"},
		{name: "steam-probe", words: "--bind / /", script: "id -u; cat /proc/$PPID/comm", want: "bwrap\n"},
		{name: "portal-validator", lay: map[string]string{"icon.png": "image"},
			words:  "--unshare-ipc --unshare-net --unshare-pid " + base + "--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --tmpfs /tmp --proc /proc --dev /dev --chdir / --setenv GIO_USE_VFS local --unsetenv TMPDIR --die-with-parent --ro-bind {DIR}/icon.png {DIR}/icon.png",
			script: state + "cat {DIR}/icon.png; ls {DIR}; echo $GIO_USE_VFS$TMPDIR", want: "image"},
	}
}

// fhs is what nixpkgs' buildFHSEnv asks for, in its numbers: a tree of links into a store, of which each package is bound.
func fhs() string {
	var b strings.Builder
	b.WriteString("--dev-bind /dev /dev --proc /proc --chdir / --die-with-parent --bind-try {DIR} {DIR} --bind-try /nowhere /nowhere " + base)
	for i := range 200 {
		fmt.Fprintf(&b, "--ro-bind {DIR}/store/p%d /fhs/p%d ", i, i)
	}
	for i := range 300 {
		fmt.Fprintf(&b, "--symlink /fhs/p%d/file /etc/l%d ", (i+100)%200, i)
	}
	b.WriteString("--tmpfs {DIR}/run --remount-ro {DIR}/run --ro-bind {DIR}/store {DIR}/store")
	return b.String()
}

func fhsStore() map[string]string {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("store/p%d/file", i)] = fmt.Sprintf("this is %d\n", i)
	}
	return files
}
