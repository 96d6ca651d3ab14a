package bwrap_test

import "strings"

// symlinkScenes have a symlink where something is to be made or mounted, or above it.
func symlinkScenes() []scene {
	operations := map[string]string{
		"bind": "--bind {HOST}/src D", "ro-bind": "--ro-bind {HOST}/src D", "bind-file": "--bind {HOST}/file D", "tmpfs": "--tmpfs D", "dir": "--dir D",
		"file": "--file 9 D", "bind-data": "--bind-data 9 D", "symlink": "--symlink t D", "chmod": "--chmod 0700 D", "proc": "--proc D", "dev": "--dev D",
		"bind-fd": "--bind-fd 10 D", "remount-ro": "--remount-ro D", "tmp-overlay": "--overlay-src {HOST}/src --tmp-overlay D", "lock-file": "--lock-file D",
		"chdir": "--chdir D",
	}
	destinations := map[string]string{
		"relative": "--dir /real --symlink real /l --D /l", "absolute": "--dir /real --symlink /real /l --D /l", "dangling": "--symlink nowhere /l --D /l",
		"to-file": "--file 8 /real --symlink real /l --D /l", "parent": "--dir /real/sub --symlink real /l --D /l/sub", "parent-absolute": "--dir /real/sub --symlink /real /l --D /l/sub",
		"parent-new": "--dir /real --symlink /real /l --D /l/new", "parent-dangling": "--symlink /nowhere /l --D /l/new", "parent-up": "--dir /a/b --symlink ../../../.. /a/b/l --D /a/b/l/new",
		"parent-loop": "--symlink l /l --D /l/new",
	}
	var list []scene
	for operation, op := range operations {
		for where, set := range destinations {
			set, dest, _ := strings.Cut(set, "--D ")
			line := "{BASE} " + set + strings.ReplaceAll(op, "D", dest) + " {FP} list=/"
			list = append(list, c(operation+"-"+where, line, host("d src", "f src/inner x", "f file y"), fd(8, "data:real"), fd(9, "data:data"), fd(10, "path:{HOST}/src")))
		}
	}
	return append(list, escapeScenes()...)
}

// escapeScenes lead out of the sandbox by links that a bound directory holds: CVE-2026-87766.
func escapeScenes() []scene {
	victims := map[string]string{"oldroot": "/oldroot{HOST}/victim", "fd": "/proc/self/fd/7", "dots": "../../../../../../../..{HOST}/victim", "plain": "{HOST}/victim"}
	operations := map[string]string{"dir": "--dir /h/l/new", "file": "--file 9 /h/l/new", "bind": "--bind {HOST}/src /h/l/new", "tmpfs": "--tmpfs /h/l/new",
		"symlink": "--symlink x /h/l/new", "chmod": "--chmod 0711 /h/l/old", "bind-data": "--bind-data 9 /h/l/new"}
	var list []scene
	for kind, victim := range victims {
		for name, op := range operations {
			list = append(list, c("escape-"+kind+"-"+name, "{BASE} --bind {HOST}/bound /h "+op+" {FP} list=/h",
				host("d bound", "d victim/old", "d src", "l bound/l "+victim), fd(9, "data:data"), fd(7, "dir:{HOST}/victim")))
		}
	}
	return append(list,
		c("host-relative", "--ro-bind / / --tmpfs {HOST}/l {FPBIN}", host("d d", "l l d")),
		c("host-absolute", "--ro-bind / / --bind {HOST}/s {HOST}/l {FPBIN}", host("d d", "d s", "l l {HOST}/d")),
		c("host-parent", "--ro-bind / / --bind {HOST}/s {HOST}/l/x {FPBIN} list={HOST}", host("d d/x", "d s", "f s/in y", "l l {HOST}/d")),
		c("magic-cwd", "--bind / / --dir {HOST}/l/new {FPBIN}", host("l l /proc/self/cwd")),
		c("magic-fd", "--bind / / --dir {HOST}/l/new {FPBIN}", host("d victim", "l l /proc/self/fd/7"), fd(7, "dir:{HOST}/victim")),
		c("magic-root", "--bind / / --tmpfs /proc/self/root/{HOST}/victim {FPBIN}", host("d victim")),
		c("host-var-run", "--ro-bind / / --tmpfs /var/run {FPBIN}"),
		c("host-var-run-below", "--ro-bind / / --tmpfs /var/run/lock {FPBIN}"),
		c("host-bin", "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind /usr/bin/true /bin/nsrun-none /bin/true"),
		c("merged-usr", "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 /bin/true"),
		c("debug-fallback", "{BASE} --debug-opt=force-openat-fallback --bind {HOST}/bound /h --dir /h/l/new {FP} list=/h", host("d bound", "d victim", "l bound/l /oldroot{HOST}/victim")))
}
