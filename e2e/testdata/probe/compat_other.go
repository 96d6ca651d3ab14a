//go:build !amd64

package main

func compat(uint32) (int32, bool) { return 0, false }
