#include "textflag.h"

// onSignal is a signal handler: it writes the number to signalFD, and touches nothing of Go's. The kernel calls it with the number in R0, and
// has it return to sigreturn(2) in the vDSO.
TEXT ·onSignal(SB),NOSPLIT|NOFRAME,$0
	SUB	$16, RSP
	MOVD	R0, (RSP)
	MOVW	·signalFD(SB), R0
	MOVD	RSP, R1
	MOVD	$1, R2
	MOVD	$64, R8 // SYS_write
	SVC
	ADD	$16, RSP
	RET

// func signalEntries() (handler, restorer uintptr)
TEXT ·signalEntries(SB),NOSPLIT,$0-16
	MOVD	$·onSignal(SB), R0
	MOVD	R0, handler+0(FP)
	MOVD	ZR, restorer+8(FP)
	RET
