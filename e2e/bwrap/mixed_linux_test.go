package bwrap_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// mixedScenes combine options by chance, always the same ones.
func mixedScenes() []scene {
	spaces := strings.Split("--unshare-user|--unshare-pid|--unshare-net|--unshare-ipc|--unshare-uts|--unshare-cgroup-try|--unshare-all|--share-net|--unshare-user-try|--new-session|--die-with-parent|--unshare-pid --as-pid-1|--sync-fd 11|"+
		"--json-status-fd 12|--info-fd 13|--cap-add ALL|--cap-drop ALL|--cap-add cap_chown|--unshare-user --uid 7|--unshare-user --gid 8|--unshare-uts --hostname mixed|--chdir /a|--chdir /h|--setenv A 1|--unsetenv LANG|--clearenv|--lock-file /fp/fp|"+
		"--unshare-user --disable-userns|--argv0 zero|--level-prefix|--seccomp 14", "|")
	files := strings.Split("--dir D|--tmpfs D|--bind {HOST} D|--ro-bind {HOST} D|--bind {HOST}/sub D|--dev-bind {HOST}/sub D|--ro-bind {HOST}/f D|--file 9 D|--bind-data 10 D|--perms 0640 --dir D|--perms 0751 --tmpfs D|--perms 0604 --ro-bind-data 10 D|"+
		"--symlink /a D|--symlink b D|--chmod 0750 D|--remount-ro D|--proc /proc|--dev /dev|--size 65536 --tmpfs D|--bind-try {HOST}/none D|--overlay-src {HOST}/sub --tmp-overlay D|--bind-fd 15 D", "|")
	dests := strings.Fields("/a /b /a/b /a/b/c /h /h/sub /h/new /h/sub/x /a/c /d/e/f /a/sub /b/x /h/f")
	r := rand.New(rand.NewPCG(13, 1))
	var list []scene
	for i := range 150 {
		words := []string{"{BASE}"}
		for range 2 + r.IntN(6) {
			words = append(words, strings.ReplaceAll(files[r.IntN(len(files))], "D", dests[r.IntN(len(dests))]))
			if r.IntN(2) == 0 {
				words = append(words, spaces[r.IntN(len(spaces))])
			}
		}
		list = append(list, c(fmt.Sprintf("%03d", i), strings.Join(words, " ")+" {FP} list=/ write=/a/w write=/h/w write=/h/sub/w",
			host("d sub/x", "f f content", "f sub/g inner"), fd(9, "data:nine"), fd(10, "data:ten"), fd(11, "data:"), out(12), out(13), at(14, filter(allow, allow)), fd(15, "path:{HOST}/sub")))
	}
	return list
}
