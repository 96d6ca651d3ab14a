#include "textflag.h"

// func Clone(flags, stack uintptr, pidfd *int32, entry uintptr, argument unsafe.Pointer) (pid uintptr)
//
// The kernel keeps all registers but R0, so the child has entry and argument where the parent put them, and g in R28. It begins with an
// empty stack and calls entry as Go's register ABI has it: the argument in R0.
TEXT ·Clone(SB),NOSPLIT,$0-48
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	pidfd+16(FP), R2
	MOVD	entry+24(FP), R10
	MOVD	argument+32(FP), R9
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$220, R8 // SYS_clone
	SVC
	CBZ	R0, child
	MOVD	R0, pid+40(FP)
	RET
child:
	MOVD	R9, R0
	BL	(R10)
	BRK	$0 // not reached
