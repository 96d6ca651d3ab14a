//go:build !linux

package tools

import (
	"os"
	"time"
)

func changed(info os.FileInfo) time.Time { return info.ModTime() }
