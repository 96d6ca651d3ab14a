package entry

// Numbers of system calls: include/uapi/asm-generic/unistd.h.
const (
	sysWrite            = 64
	sysClose            = 57
	sysIoctl            = 29
	sysSocket           = 198
	sysLseek            = 62
	sysMmap             = 222
	sysPread64          = 67
	sysOpenat           = 56
	sysRtSigaction      = 134
	sysClone            = 220
	sysKill             = 129
	sysWait4            = 260
	sysFcntl            = 25
	sysExitGroup        = 94
	sysPrlimit64        = 261
	sysExit             = 93
	sysGetpid           = 172
	sysGetppid          = 173
	sysGetuid           = 174
	sysPrctl            = 167
	sysFutex            = 98
	sysRtSigprocmask    = 135
	sysPidfdSendSignal  = 424
	sysPidfdOpen        = 434
	sysPpoll            = 73
	sysWaitid           = 95
	sysGetcpu           = 168
	sysSchedSetaffinity = 122
	sysSchedGetaffinity = 123
	sysArchPrctl        = 0 // there is none, and g is in a register of its own
)
