package testenv

import "golang.org/x/sys/unix"

// Landlock returns the ABI of the kernel's Landlock, or 0. It asks the kernel, since nsrun's own answer is under test.
func Landlock() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// WithoutLandlock returns the flags with which nsrun runs a policy on this kernel, where the test does not need Landlock.
func WithoutLandlock() []string {
	if Landlock() > 0 {
		return nil
	}
	return []string{"--no-landlock"}
}
