package entry

// Numbers of system calls: arch/x86/entry/syscalls/syscall_64.tbl.
const (
	sysWrite            = 1
	sysClose            = 3
	sysIoctl            = 16
	sysSocket           = 41
	sysLseek            = 8
	sysMmap             = 9
	sysPread64          = 17
	sysOpenat           = 257
	sysRtSigaction      = 13
	sysClone            = 56
	sysKill             = 62
	sysWait4            = 61
	sysFcntl            = 72
	sysExitGroup        = 231
	sysPrlimit64        = 302
	sysExit             = 60
	sysGetpid           = 39
	sysGetppid          = 110
	sysGetuid           = 102
	sysPrctl            = 157
	sysFutex            = 202
	sysRtSigprocmask    = 14
	sysWaitid           = 247
	sysPidfdSendSignal  = 424
	sysPidfdOpen        = 434
	sysPpoll            = 271
	sysArchPrctl        = 158
	sysGetcpu           = 309
	sysSchedSetaffinity = 203
	sysSchedGetaffinity = 204
)
