package nofile

const sysPrlimit64 = 302 // arch/x86/entry/syscalls/syscall_64.tbl
