package bwrap_test

// overlayScenes are overlays. Layers are directories of the host.
func overlayScenes() []scene {
	files := host("d low", "f low/a low", "f low/b low", "d mid", "f mid/b mid", "f mid/c mid", "d up", "d work")
	src := "--overlay-src {HOST}/low "
	two := src + "--overlay-src {HOST}/mid "
	return []scene{
		c("tmp", "{BASE} "+src+"--tmp-overlay /o {FP} list=/o write=/o/new write=/o/a", files),
		c("tmp-two", "{BASE} "+two+"--tmp-overlay /o {FP} list=/o", files),
		c("tmp-twice", "{BASE} "+src+"--tmp-overlay /o "+two+"--tmp-overlay /p {FP} list=/o list=/p", files),
		c("ro", "{BASE} "+two+"--ro-overlay /o {FP} list=/o write=/o/a", files),
		c("ro-one", "{BASE} "+src+"--ro-overlay /o {FP}", files),
		c("ro-none", "{BASE} --ro-overlay /o {FP}", files),
		c("tmp-none", "{BASE} --tmp-overlay /o {FP}", files),
		c("rw-none", "{BASE} --overlay {HOST}/up {HOST}/work /o {FP}", files),
		c("rw", "{BASE} "+src+"--overlay {HOST}/up {HOST}/work /o {FP} list=/o write=/o/new", files),
		c("rw-two", "{BASE} "+two+"--overlay {HOST}/up {HOST}/work /o {FP} list=/o write=/o/a", files),
		c("rw-up-missing", "{BASE} "+src+"--overlay {HOST}/none {HOST}/work /o {FP}", files),
		c("rw-work-missing", "{BASE} "+src+"--overlay {HOST}/up {HOST}/none /o {FP}", files),
		c("rw-same", "{BASE} "+src+"--overlay {HOST}/up {HOST}/up /o {FP}", files),
		c("rw-upper-is-lower", "{BASE} "+src+"--overlay {HOST}/low {HOST}/work /o {FP}", files),
		c("ro-same", "{BASE} "+src+src+"--ro-overlay /o {FP}", files),
		c("ro-below", "{BASE} "+src+"--overlay-src {HOST} --ro-overlay /o {FP}", files),
		c("src-missing", "{BASE} --overlay-src {HOST}/none --tmp-overlay /o {FP}", files),
		c("src-file", "{BASE} --overlay-src {HOST}/low/a --tmp-overlay /o {FP}", files),
		c("src-link", "{BASE} --overlay-src {HOST}/l --tmp-overlay /o {FP} list=/o", files, host("l l low")),
		c("special", "{BASE} --overlay-src '{HOST}/a:b,c\\d' --tmp-overlay /o {FP} list=/o", host("d a:b,c\\d", "f a:b,c\\d/x y")),
		c("on-file", "{BASE} --file 9 /o "+src+"--tmp-overlay /o {FP}", files, fd(9, "data:x")),
		c("root", src+"--tmp-overlay / {BASE} {FP} list=/", files),
		c("root-whole", "--overlay-src / --tmp-overlay / {FPBIN} write=/usr/new"),
		c("over-existing", "--ro-bind / / "+src+"--tmp-overlay {HOST}/mid {FPBIN} list={HOST}", files),
		c("remount", "{BASE} "+src+"--tmp-overlay /o --remount-ro /o {FP} write=/o/x", files),
		c("then-dir", "{BASE} "+src+"--tmp-overlay /o --dir /o/x/y --chmod 0700 /o/a {FP} list=/o", files),
		c("pending-src", "{BASE} "+src+"--bind / /x {FP}", files),
		c("relative", "{BASE} "+src+"--tmp-overlay o {FP} list=/", files),
		c("user", "{BASE} --unshare-user "+src+"--tmp-overlay /o {FP} list=/o", files),
		c("deep-parent", "{BASE} "+src+"--tmp-overlay /a/b/o {FP} list=/", files),
	}
}
