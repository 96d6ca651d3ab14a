package sys

// readThreadPointer writes the thread pointer to the address into.
//
//go:noescape
func readThreadPointer(into uintptr)
