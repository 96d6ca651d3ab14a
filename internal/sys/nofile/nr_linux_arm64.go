package nofile

const sysPrlimit64 = 261 // include/uapi/asm-generic/unistd.h
