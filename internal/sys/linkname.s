// This file lets the compiler accept functions without bodies: those that fork_unsafe_linux.go takes by linkname.
