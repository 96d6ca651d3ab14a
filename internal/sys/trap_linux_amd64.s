#include "textflag.h"

// func crash()
TEXT ·crash(SB),NOSPLIT|NOFRAME,$0-0
	XORL	AX, AX
	MOVQ	AX, (AX)
	RET

// func foreign()
//
// The kernel takes int $0x80 for a call of i386's, whose number 20 is getpid. Where it has none, the instruction is a fault.
TEXT ·foreign(SB),NOSPLIT,$0-0
	MOVL	$20, AX
	INT	$0x80
	RET
