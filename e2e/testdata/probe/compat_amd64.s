#include "textflag.h"

// func interrupt(nr uint32) int32
TEXT ·interrupt(SB), NOSPLIT, $0-12
	MOVL nr+0(FP), AX
	XORL BX, BX
	XORL CX, CX
	XORL DX, DX
	XORL SI, SI
	XORL DI, DI
	INT  $0x80
	MOVL AX, ret+8(FP)
	RET
