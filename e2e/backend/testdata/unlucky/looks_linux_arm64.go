package main

import "golang.org/x/sys/unix"

var looks = append(everywhere, look{"newfstatat", unix.SYS_FSTATAT, 1})
