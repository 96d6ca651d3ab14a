package main

// interrupt makes a system call of the 32-bit ABI with arguments of zero.
func interrupt(nr uint32) int32

func compat(nr uint32) (int32, bool) { return interrupt(nr), true }
