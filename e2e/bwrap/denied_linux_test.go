package bwrap_test

import "strings"

// deniedScenes have a directory on the way that the caller may not search, which root may. The last directory of a destination is mounted on:
// that takes no right to search it. What lies below one of the caller's own is reached by the capabilities of a user namespace that maps the
// caller.
func deniedScenes() []scene {
	tree := host("d nr/n/deep", "f nr/f content", "l nr/l n", "l nr/abs {HOST}/nr/n", "l nr/out {HOST}/d", "l nr/up ../d/..", "d d", "d e", "d nr/nr2/n", "m nr/nr2 0000", "m nr 0000")
	on := map[string]string{
		"tmpfs": "--tmpfs D", "dev": "--dev D", "proc": "--unshare-pid --proc D", "mqueue": "--unshare-ipc --mqueue D", "overlay": "--overlay-src {HOST}/d --tmp-overlay D",
		"ro-overlay": "--overlay-src {HOST}/d --overlay-src {HOST}/e --ro-overlay D", "bind": "--bind {HOST}/d D", "tmpfs-dir": "--tmpfs D --dir D/a",
		"tmpfs-bind": "--tmpfs D --bind {HOST}/d D/a/b", "dir": "--dir D", "twice": "--tmpfs D --dev D --tmpfs D", "remount-ro": "--tmpfs D --remount-ro D", "chmod": "--chmod 0700 D",
	}
	below := map[string]string{
		"tmpfs": "--tmpfs D", "dev": "--dev D", "bind": "--bind {HOST}/d D", "bind-file": "--ro-bind /etc/hostname D", "overlay": "--overlay-src {HOST}/d --tmp-overlay D", "dir": "--dir D",
		"file": "--file 9 D", "bind-data": "--bind-data 9 D", "symlink": "--symlink x D", "chmod": "--chmod 0700 D", "remount-ro": "--remount-ro D", "chdir": "--chdir D",
		"source": "--dir /s --bind {HOST}/nr/P /s", "source-try": "--ro-bind-try {HOST}/nr/P /t", "layer": "--overlay-src {HOST}/nr/P --tmp-overlay /s",
	}
	places := strings.Fields("n f new new/er n/deep l l/new abs/deep out/made up/d nr2/new")
	var list []scene
	for name, op := range on {
		for at, dir := range map[string]string{"home": "/root", "keys": "/etc/ssl/private", "own": "{HOST}/nr"} {
			list = append(list, c("on-"+at+"-"+name, "--ro-bind / / "+strings.ReplaceAll(op, "D", dir)+" {FPBIN} list="+dir, tree, ignore("host")))
		}
	}
	for name, op := range below {
		for _, place := range places {
			op := strings.ReplaceAll(strings.ReplaceAll(op, "D", "/h/nr/"+place), "P", place)
			list = append(list, c(name+"-"+strings.ReplaceAll(place, "/", "-"), "{BASE} --bind {HOST} /h "+op+" {FP} list=/h/nr/"+place+" list=/s", tree, fd(9, "data:x"), ignore("host")))
		}
	}
	for i := range list {
		list[i].only = "user"
	}
	return list
}
