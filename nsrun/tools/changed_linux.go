package tools

import (
	"os"
	"syscall"
	"time"
)

// changed is when a file's content, name or mode was last changed: no program without privileges can set that time.
func changed(info os.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Sec, st.Ctim.Nsec)
	}
	return info.ModTime()
}
