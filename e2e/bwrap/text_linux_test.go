package bwrap_test

import "strings"

// textScenes are command lines that are refused, or numbers that are not.
func textScenes() []scene {
	list := []scene{
		c("disable-userns-alone", "{BASE} --disable-userns {FP}"),
		c("disable-userns-block", "{BASE} --unshare-user --disable-userns --userns-block-fd 9 --info-fd 10 {FP}", fd(9, "data:x"), out(10)),
		c("disable-userns-try", "{BASE} --unshare-user-try --disable-userns {FP}"),
		c("disable-userns-all", "{BASE} --unshare-all --disable-userns {FP}"),
		c("userns-unshare", "{BASE} --unshare-user --userns 9 {FP}", fd(9, "ns:user")),
		c("userns-try", "{BASE} --unshare-user-try --userns 9 {FP}", fd(9, "ns:user")),
		c("userns-all", "{BASE} --unshare-all --userns 9 {FP}", fd(9, "ns:user")),
		c("userns-block-alone", "{BASE} --userns-block-fd 9 {FP}", fd(9, "data:x")),
		c("userns-block-no-info", "{BASE} --unshare-user --userns-block-fd 9 {FP}", fd(9, "data:x")),
		c("hostname-alone", "{BASE} --hostname x {FP}"),
		c("as-pid-1-alone", "{BASE} --as-pid-1 {FP}"),
		c("as-pid-1-lock", "{BASE} --as-pid-1 --unshare-pid --lock-file /fp/fp {FP}"),
		c("uid-alone", "{BASE} --uid 5 {FP}"),
		c("gid-alone", "{BASE} --gid 5 {FP}"),
		c("uid-same", "{BASE} --uid 0 --gid 0 {FP}"),
		c("uid-disable-userns", "{BASE} --uid 5 --disable-userns {FP}"),
		c("info-fd-bad", "{BASE} --info-fd 77 {FP}"),
		c("json-fd-bad", "{BASE} --json-status-fd 77 {FP}"),
		c("block-fd-bad", "{BASE} --block-fd 77 {FP}"),
		c("sync-fd-bad", "{BASE} --sync-fd 77 {FP}"),
		c("seccomp-fd-bad", "{BASE} --seccomp 77 {FP}"),
		c("add-seccomp-fd-bad", "{BASE} --add-seccomp-fd 77 {FP}"),
		c("userns-fd-bad", "{BASE} --userns 77 {FP}"),
		c("userns2-fd-bad", "{BASE} --userns2 77 {FP}"),
		c("pidns-fd-bad", "{BASE} --pidns 77 {FP}"),
		c("userns-fd-no-ns", "{BASE} --userns 9 {FP}", fd(9, "data:")),
		c("userns2-fd-no-ns", "{BASE} --userns2 9 {FP}", fd(9, "data:")),
		c("pidns-fd-no-ns", "{BASE} --pidns 9 {FP}", fd(9, "data:")),
		c("file-fd-bad", "{BASE} --file 77 /x {FP}"),
		c("bind-data-fd-bad", "{BASE} --bind-data 77 /x {FP}"),
		c("bind-fd-bad", "{BASE} --bind-fd 77 /x {FP}"),
		c("unshare-x", "{BASE} --unshare-time {FP}"),
		c("setenv-empty", "{BASE} --setenv '' x {FP}"),
		c("setenv-equals", "{BASE} --setenv a=b x {FP}"),
		c("unsetenv-empty", "{BASE} --unsetenv '' {FP}"),
		c("unsetenv-equals", "{BASE} --unsetenv a=b {FP}"),
		c("cap-unknown", "{BASE} --cap-add nonsense {FP}"),
		c("cap-no-prefix", "{BASE} --cap-add net_admin {FP}"),
		c("cap-empty", "{BASE} --cap-drop '' {FP}"),
		c("cap-number", "{BASE} --cap-add 5 {FP}"),
		c("cap-number-high", "{BASE} --cap-add 77 {FP}"),
		c("cap-number-zero", "{BASE} --cap-add 0 {FP}"),
		c("hostname-empty", "{BASE} --unshare-uts --hostname '' {FP}"),
		c("hostname-64", "{BASE} --unshare-uts --hostname "+strings.Repeat("x", 64)+" {FP}"),
		c("hostname-65", "{BASE} --unshare-uts --hostname "+strings.Repeat("x", 65)+" {FP}"),
	}
	list = append(list, arityScenes()...)
	return append(list, numberScenes()...)
}

// arityScenes lack one value each, or have an empty one.
func arityScenes() []scene {
	one := `args argv0 userns userns2 pidns uid gid hostname chdir unsetenv lock-file sync-fd remount-ro overlay-src tmp-overlay ro-overlay
		exec-label file-label proc dev tmpfs mqueue dir seccomp add-seccomp-fd block-fd userns-block-fd info-fd json-status-fd cap-add cap-drop
		perms size`
	two := `setenv bind bind-try dev-bind dev-bind-try ro-bind ro-bind-try bind-fd ro-bind-fd file bind-data ro-bind-data symlink chmod overlay`
	var list []scene
	for _, option := range strings.Fields(one) {
		list = append(list, c("arity-"+option, "--"+option))
	}
	for _, option := range strings.Fields(two) {
		list = append(list, c("arity-"+option, "--"+option), c("arity-1-"+option, "--"+option+" x"))
	}
	list = append(list, c("arity-2-overlay", "--overlay x y"))
	for _, option := range strings.Fields("chdir lock-file remount-ro overlay-src tmp-overlay ro-overlay proc dev tmpfs mqueue dir") {
		list = append(list, c("empty-"+option, "{BASE} --"+option+" '' {FP}"))
	}
	for _, option := range strings.Fields("bind bind-try dev-bind dev-bind-try ro-bind ro-bind-try symlink") {
		list = append(list, c("empty-source-"+option, "{BASE} --"+option+" '' /x {FP}"), c("empty-"+option, "{BASE} --"+option+" / '' {FP}"))
	}
	for _, option := range strings.Fields("file bind-data ro-bind-data bind-fd ro-bind-fd") {
		list = append(list, c("empty-"+option, "{BASE} --"+option+" 9 '' {FP}", fd(9, "dir:/")))
	}
	return append(list, c("empty-chmod", "{BASE} --chmod 0700 '' {FP}"), c("empty-overlay", "{BASE} --overlay-src / --overlay '' / /x {FP}"),
		c("empty-overlay-work", "{BASE} --overlay-src / --overlay / '' /x {FP}"), c("empty-overlay-dest", "{BASE} --overlay-src / --overlay / / '' {FP}"))
}

func numberScenes() []scene {
	var list []scene
	for name, word := range map[string]string{"word": "x", "empty": "''", "negative": "-1", "junk": "9x", "blank": "' 9'", "blank-after": "'9 '", "plus": "+9", "hex": "0x9",
		"octal": "011", "huge": "99999999999999999999", "wrap": "4294967305", "big": "2147483648", "float": "9.0", "tab": "'\t9'", "minus-zero": "-0", "double-sign": "'+ 9'"} {
		list = append(list, c("fd-"+name, "{BASE} --sync-fd "+word+" {FP}", fd(9, "data:")),
			c("uid-"+name, "{BASE} --unshare-user --uid "+word+" {FP}"),
			c("perms-"+name, "{BASE} --perms "+word+" --dir /x {FP} list=/x"),
			c("size-"+name, "{BASE} --size "+word+" --tmpfs /x {FP}"))
	}
	for name, word := range map[string]string{"max": "07777", "over": "010000", "eight": "8", "prefix": "0o700", "letters": "u+x", "zero": "0", "set-uid": "4755"} {
		list = append(list, c("perms-octal-"+name, "{BASE} --perms "+word+" --dir /x {FP} list=/x"), c("chmod-"+name, "{BASE} --dir /x --chmod "+word+" /x {FP} list=/"))
	}
	for name, word := range map[string]string{"zero": "0", "one": "1", "k": "4k", "hex": "0x1000", "octal": "010000", "max": "9223372036854775807", "over": "9223372036854775808",
		"wrap": "18446744073709551616"} {
		list = append(list, c("size-n-"+name, "{BASE} --size "+word+" --tmpfs /x {FP}"))
	}
	for _, fd := range strings.Fields("args info-fd json-status-fd block-fd seccomp add-seccomp-fd userns userns2 pidns userns-block-fd") {
		list = append(list, c("bad-"+fd, "{BASE} --"+fd+" -1 {FP}"))
	}
	for _, fd := range strings.Fields("file bind-data ro-bind-data bind-fd ro-bind-fd") {
		list = append(list, c("bad-"+fd, "{BASE} --"+fd+" 9z /x {FP}"))
	}
	return append(list, c("gid-junk", "{BASE} --unshare-user --gid 5x {FP}"), c("gid-big", "{BASE} --unshare-user --gid 4294967295 {FP}"))
}
