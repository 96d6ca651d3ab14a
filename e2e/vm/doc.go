// Package vm boots Linux kernels in virtual machines, to run this module's tests in them.
//
//	k, err := vm.FetchKernel("6.1", "bookworm-security", "amd64") // Debian's package, by apt
//	root, err := vm.DebianRoot("amd64")
//	err = vm.Prepare(dir, k, root, guest.Plan{Hosts: []guest.Hosted{{Steps: steps}}})
//	err = vm.Machine{...}.Boot(ctx, time.Minute, func(f guest.Frame) { ... })
//
// A guest has no network and no disk: its root is an initramfs, made here, and it answers over a serial line. The kernels, of which
// matrix.go is the list, and the programs are Debian's packages, fetched by the machine's own apt under a private configuration and kept
// in the user's cache directory. Nothing needs root.
//
// It protects nothing: a guest is trusted as far as the tests that run in it.
package vm
