#include "textflag.h"

// func Clone(flags, stack uintptr, pidfd *int32, entry uintptr, argument unsafe.Pointer) (pid uintptr)
//
// The kernel keeps all registers but AX, CX and R11, so the child has entry and argument where the parent put them, and g in R14, if there is
// a runtime. It begins with an empty stack and calls entry as Go's register ABI has it: the argument in AX, X15 zero.
TEXT ·Clone(SB),NOSPLIT,$0-48
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	pidfd+16(FP), DX
	MOVQ	entry+24(FP), R12
	MOVQ	argument+32(FP), R13
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$56, AX // SYS_clone
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, pid+40(FP)
	RET
child:
	XORPS	X15, X15
	MOVQ	R13, AX
	CALL	R12
	INT	$3 // not reached
