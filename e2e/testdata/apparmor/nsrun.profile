# What Ubuntu 24.04 does to programs without a profile of their own: a user namespace can be made, and nothing be done in it. Compiled by
#   apparmor_parser --quiet --skip-kernel-load --skip-cache --stdout --features-file /etc/apparmor.d/abi/kernel-5.4-vanilla nsrun.profile >nsrun.bin
# because guests have no compiler.
profile nsrun-restricted /nsrun-built/cmd/nsrun flags=(attach_disconnected) {
  file,
  signal,
  ptrace,
  network,
  mount,
  umount,
  pivot_root,
  audit deny capability,
}
