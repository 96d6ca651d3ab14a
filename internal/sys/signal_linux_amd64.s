#include "textflag.h"

// onSignal is a signal handler: it writes the number to signalFD, and touches nothing of Go's. The kernel calls it with the number in DI.
TEXT ·onSignal(SB),NOSPLIT|NOFRAME,$0
	PUSHQ	DI
	MOVL	·signalFD(SB), DI
	MOVQ	SP, SI
	MOVL	$1, DX
	MOVL	$1, AX // SYS_write
	SYSCALL
	POPQ	DI
	RET

// signalReturn is where a handler returns to: sigreturn(2).
TEXT ·signalReturn(SB),NOSPLIT|NOFRAME,$0
	MOVL	$15, AX // SYS_rt_sigreturn
	SYSCALL
	INT	$3 // not reached

// func signalEntries() (handler, restorer uintptr)
TEXT ·signalEntries(SB),NOSPLIT,$0-16
	LEAQ	·onSignal(SB), AX
	MOVQ	AX, handler+0(FP)
	LEAQ	·signalReturn(SB), AX
	MOVQ	AX, restorer+8(FP)
	RET
